"""``python -m stateplan`` is the command ``stateplan``."""

from stateplan.cli.app import main

if __name__ == "__main__":
    main()
