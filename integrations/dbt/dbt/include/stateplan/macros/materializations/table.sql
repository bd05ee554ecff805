{% materialization table, adapter='stateplan' %}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- set existing_relation = load_cached_relation(this) -%}
  {{ run_hooks(pre_hooks) }}

  {% set exists = stateplan_is_table(existing_relation) and not should_full_refresh() %}
  {%- call statement('main') -%}
    {{ adapter.table_statement(target_relation, sql, config.model.config, stateplan_declared_columns(sql), exists) }}
  {%- endcall -%}
  {% do adapter.finish_table(target_relation) %}

  {% do persist_docs(target_relation, model) %}
  {% do apply_grants(target_relation, config.get('grants')) %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}

{# Whether a relation is there and is a table. A view of the name is dropped. #}

{% macro stateplan_is_table(relation) %}
  {% if relation is none %}
    {{ return(False) }}
  {% endif %}
  {% if not relation.is_table %}
    {% do adapter.drop_relation(relation) %}
    {{ return(False) }}
  {% endif %}
  {{ return(True) }}
{% endmacro %}

{# The columns and constraints of a model with a contract, which is compared with the query; else none. #}

{% macro stateplan_declared_columns(sql) %}
  {% if not config.get('contract').enforced %}
    {{ return([]) }}
  {% endif %}
  {{ get_assert_columns_equivalent(sql) }}
  {% set columns = adapter.render_raw_columns_constraints(raw_columns=model['columns']) %}
  {% set constraints = adapter.render_raw_model_constraints(raw_constraints=model['constraints']) %}
  {{ return(columns + constraints) }}
{% endmacro %}
