"""`python -m batchline`."""

from batchline.cli import main

if __name__ == "__main__":
    main()
