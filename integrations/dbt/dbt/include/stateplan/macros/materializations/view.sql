{% materialization view, adapter='stateplan' %}
  {%- set target_relation = this.incorporate(type='view') -%}
  {%- set existing_relation = load_cached_relation(this) -%}
  {{ run_hooks(pre_hooks) }}

  {% if existing_relation is not none and not existing_relation.is_view %}
    {% do adapter.drop_relation(existing_relation) %}
  {% endif %}
  {%- call statement('main') -%}
    {{ get_create_view_as_sql(target_relation, sql) }}
  {%- endcall -%}

  {% do persist_docs(target_relation, model) %}
  {% do apply_grants(target_relation, config.get('grants')) %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
