{# dbt's macros for functions that have another name in Flink SQL. #}

{% macro stateplan__dateadd(datepart, interval, from_date_or_timestamp) %}
  timestampadd({{ datepart }}, {{ interval }}, cast({{ from_date_or_timestamp }} as timestamp(6)))
{% endmacro %}

{% macro stateplan__datediff(first_date, second_date, datepart) %}
  timestampdiff(
    {{ datepart }},
    floor(cast({{ first_date }} as timestamp(6)) to {{ datepart }}),
    floor(cast({{ second_date }} as timestamp(6)) to {{ datepart }})
  )
{% endmacro %}

{% macro stateplan__date_trunc(datepart, date) %}
  floor(cast({{ date }} as timestamp(6)) to {{ datepart }})
{% endmacro %}

{% macro stateplan__last_day(date, datepart) %}
  cast(timestampadd(day, -1, timestampadd({{ datepart }}, 1, floor(cast({{ date }} as timestamp(6)) to {{ datepart }}))) as date)
{% endmacro %}

{% macro stateplan__safe_cast(field, type) %}
  try_cast({{ field }} as {{ type }})
{% endmacro %}

{% macro stateplan__any_value(expression) %}
  min({{ expression }})
{% endmacro %}

{% macro stateplan__bool_or(expression) %}
  (count(*) filter (where {{ expression }}) > 0)
{% endmacro %}

{% macro stateplan__cast_bool_to_text(field) %}
  lower(cast({{ field }} as string))
{% endmacro %}

{% macro stateplan__length(expression) %}
  char_length({{ expression }})
{% endmacro %}

{% macro stateplan__hash(field) %}
  md5(cast({{ field }} as string))
{% endmacro %}

{% macro stateplan__split_part(string_text, delimiter_text, part_number) %}
  split_index({{ string_text }}, {{ delimiter_text }}, {{ part_number }} - 1)
{% endmacro %}

{% macro stateplan__listagg(measure, delimiter_text, order_by_clause, limit_num) %}
  {% if order_by_clause or limit_num %}
    {% do exceptions.raise_compiler_error("listagg has no order and no limit in Flink SQL") %}
  {% endif %}
  listagg({{ measure }}, {{ delimiter_text }})
{% endmacro %}

{% macro stateplan__right(string_text, length_expression) %}
  right({{ string_text }}, cast({{ length_expression }} as int))
{% endmacro %}

{% macro stateplan__array_construct(inputs, data_type) %}
  {% if inputs | length > 0 %}
    array[{{ inputs | join(', ') }}]
  {% else %}
    {% do exceptions.raise_compiler_error("Flink SQL has no empty array") %}
  {% endif %}
{% endmacro %}

{% macro stateplan__type_string() %}string{% endmacro %}
{% macro stateplan__type_timestamp() %}timestamp(6){% endmacro %}
{% macro stateplan__type_float() %}double{% endmacro %}
{% macro stateplan__type_numeric() %}decimal(28, 6){% endmacro %}

{% macro stateplan__snapshot_get_time() %}
  {{ current_timestamp() }}
{% endmacro %}
