{% materialization seed, adapter='stateplan' %}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- set existing_relation = load_cached_relation(this) -%}
  {%- set agate_table = load_agate_table() -%}
  {%- do store_result('agate_table', response='OK', agate_table=agate_table) -%}
  {{ run_hooks(pre_hooks) }}

  {% if existing_relation is not none and existing_relation.is_view %}
    {{ exceptions.raise_compiler_error("Cannot seed to '{}', it is a view".format(existing_relation.render())) }}
  {% endif %}
  {% set outcome = adapter.load_seed(
       target_relation, agate_table, config.model.config, existing_relation is not none, should_full_refresh()) %}
  {%- set rows = agate_table.rows | length -%}
  {%- call noop_statement('main', ('INSERT ' if outcome == 'loaded' else 'UNCHANGED ') ~ rows, 'INSERT', rows) -%}
    insert overwrite {{ target_relation }}
  {%- endcall -%}

  {% do persist_docs(target_relation, model) %}
  {% do apply_grants(target_relation, config.get('grants')) %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
