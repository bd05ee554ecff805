"""The ``stateplan`` command."""
