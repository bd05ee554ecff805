"""``python -m stateplan`` is the command ``stateplan``."""

from stateplan.cli.entry import main

if __name__ == "__main__":
    main()
