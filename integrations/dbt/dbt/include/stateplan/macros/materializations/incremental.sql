{# Inserts the rows of a query. With a unique_key, which is the primary key of the table, rows of a key replace each
   other. #}

{% materialization incremental, adapter='stateplan' %}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- set existing_relation = load_cached_relation(this) -%}
  {%- set strategy = config.get('incremental_strategy') or ('merge' if config.get('unique_key') else 'append') -%}
  {% do adapter.get_incremental_strategy_macro(context, strategy) %}
  {% if strategy == 'merge' and not config.get('unique_key') %}
    {% do exceptions.raise_compiler_error("the incremental strategy 'merge' needs a unique_key") %}
  {% endif %}
  {{ run_hooks(pre_hooks) }}

  {% set exists = stateplan_is_table(existing_relation) and not should_full_refresh() %}
  {% set columns = stateplan_declared_columns(sql) %}
  {%- call statement('main') -%}
    {%- if exists -%}
      {{ adapter.insert_statement(target_relation, sql, config.get('on_schema_change') or 'ignore') }}
    {%- else -%}
      {{ adapter.table_statement(target_relation, sql, config.model.config, columns, False) }}
    {%- endif -%}
  {%- endcall -%}
  {% do adapter.finish_table(target_relation) %}

  {% do persist_docs(target_relation, model) %}
  {% do apply_grants(target_relation, config.get('grants')) %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
