{# The state of a streaming table as a table: select * from {{ state(ref('deliveries'), 'join.left') }} #}

{% macro state(relation, state) %}
  {% if execute %}
    {{ return(adapter.state_relation(relation, state)) }}
  {% endif %}
  {{ return('state') }}
{% endmacro %}
