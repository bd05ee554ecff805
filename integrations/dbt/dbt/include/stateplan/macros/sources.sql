{# Sources that have external.options: before a run, their tables are declared in the catalog. #}

{% macro stateplan_declare_sources() %}
  {% if execute %}
    {% for source in graph.sources.values() %}
      {% if source.external and source.external.get('options') %}
        {% do adapter.declare_source(source) %}
      {% endif %}
    {% endfor %}
  {% endif %}
{% endmacro %}

{# The state of a streaming table as a table: select * from {{ state(ref('deliveries'), 'join.left') }} #}

{% macro state(relation, state) %}
  {% if execute %}
    {{ return(adapter.state_relation(relation, state)) }}
  {% endif %}
  {{ return('state') }}
{% endmacro %}
