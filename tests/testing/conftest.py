"""The test files of this folder are run by the tests beside them."""

collect_ignore_glob = ["*/*.sql"]
