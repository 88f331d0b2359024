"""`python -m ansor`: the command line."""

from ansor.cli.main import main

if __name__ == "__main__":
    main()
