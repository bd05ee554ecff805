{% materialization streaming_table, adapter='stateplan' %}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- set existing_relation = load_cached_relation(this) -%}
  {{ run_hooks(pre_hooks) }}

  {% set exists = stateplan_is_table(existing_relation) %}
  {% set outcome = adapter.run_streaming_table(
       target_relation, sql, config.model.config, stateplan_declared_columns(sql), exists, should_full_refresh()) %}
  {%- call noop_statement('main', outcome['message'], outcome['code']) -%}
    {{ sql }}
  {%- endcall -%}

  {% do persist_docs(target_relation, model) %}
  {% do apply_grants(target_relation, config.get('grants')) %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
