"""The SQL gateway: sessions and operations, served over HTTP or to the shell of the same process."""
