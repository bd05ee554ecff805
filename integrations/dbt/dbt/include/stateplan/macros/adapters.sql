{# Statements that dbt needs for schemas, tables and views. #}

{% macro stateplan__create_schema(relation) %}
  {%- call statement('create_schema') -%}
    create database if not exists {{ relation.without_identifier() }}
  {%- endcall -%}
{% endmacro %}

{% macro stateplan__drop_schema(relation) %}
  {%- call statement('drop_schema') -%}
    drop database if exists {{ relation.without_identifier() }} cascade
  {%- endcall -%}
{% endmacro %}

{% macro stateplan__drop_relation(relation) %}
  {%- call statement('drop_relation', auto_begin=False) -%}
    drop {{ relation.type }} if exists {{ relation }}
  {%- endcall -%}
{% endmacro %}

{% macro stateplan__rename_relation(from_relation, to_relation) %}
  {%- call statement('rename_relation') -%}
    alter {{ from_relation.type }} {{ from_relation }} rename to {{ to_relation }}
  {%- endcall -%}
{% endmacro %}

{% macro stateplan__truncate_relation(relation) %}
  {%- call statement('truncate_relation') -%}
    insert overwrite {{ relation }} select * from {{ relation }} where false
  {%- endcall -%}
{% endmacro %}

{% macro stateplan__get_columns_in_relation(relation) %}
  {{ return(adapter.get_columns_in_relation(relation)) }}
{% endmacro %}

{% macro stateplan__list_relations_without_caching(schema_relation) %}
  {{ return(adapter.list_relations_without_caching(schema_relation)) }}
{% endmacro %}

{% macro stateplan__list_schemas(database) %}
  {{ return(adapter.list_schemas(database)) }}
{% endmacro %}

{% macro stateplan__check_schema_exists(information_schema, schema) %}
  {{ return(adapter.check_schema_exists(information_schema.database, schema)) }}
{% endmacro %}

{% macro stateplan__create_view_as(relation, sql) %}
  {%- if config.get('contract').enforced -%}
    {{ get_assert_columns_equivalent(sql) }}
  {%- endif -%}
  create or replace view {{ relation }} as
  {{ sql }}
{% endmacro %}

{% macro stateplan__get_empty_subquery_sql(select_sql, select_sql_header=none) %}
  select * from (
    {{ select_sql }}
  ) as __dbt_sbq
  where false
{% endmacro %}

{% macro stateplan__current_timestamp() -%}
  cast(current_timestamp as timestamp(6))
{%- endmacro %}

{% macro stateplan__get_binding_char() %}
  {{ return('?') }}
{% endmacro %}

{% macro stateplan__get_limit_sql(sql, limit) %}
  {{ sql }}
  {% if limit is not none %}
  limit {{ limit }}
  {%- endif -%}
{% endmacro %}

{% macro stateplan__can_clone_table() %}
  {{ return(False) }}
{% endmacro %}

{% macro stateplan__persist_docs(relation, model, for_relation, for_columns) %}
  {% if (for_relation and config.persist_relation_docs()) or (for_columns and config.persist_column_docs()) %}
    {% do exceptions.warn("persist_docs has no effect: comments of a table belong to its declaration") %}
  {% endif %}
{% endmacro %}

{% macro stateplan__apply_grants(relation, grant_config, should_revoke=True) %}
  {% if grant_config %}
    {% do exceptions.warn("grants have no effect: access to a gateway is configured when it starts") %}
  {% endif %}
{% endmacro %}

{% macro stateplan__copy_grants() %}
  {{ return(False) }}
{% endmacro %}

{# A table of a failed test, and a view in place of the temporary table of a unit test. #}

{% macro stateplan__create_table_as(temporary, relation, sql) %}
  {%- if temporary -%}
    create or replace view {{ relation }} as
    {{ sql }}
  {%- else -%}
    {{ adapter.table_statement(relation, sql, config.model.config, [], False) }}
  {%- endif -%}
{% endmacro %}

{% macro stateplan__make_temp_relation(base_relation, suffix) %}
  {{ return(base_relation.incorporate(path={'identifier': base_relation.identifier ~ suffix}, type='view')) }}
{% endmacro %}
