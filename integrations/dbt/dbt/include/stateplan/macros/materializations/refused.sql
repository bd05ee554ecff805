{# What streaming SQL has better means for. #}

{% materialization snapshot, adapter='stateplan' %}
  {% do exceptions.raise_compiler_error(
       "snapshots are not supported: they compare a table with an earlier copy of it, and need UPDATE. A streaming table "
       ~ "sees each change when it happens: write the changes into a table without a key") %}
{% endmaterialization %}

{% materialization materialized_view, adapter='stateplan' %}
  {% do exceptions.raise_compiler_error(
       "materialized views are not supported: use the materialization 'streaming_table'") %}
{% endmaterialization %}
