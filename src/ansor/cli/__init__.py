"""The shell: commands that read words, call the library and print."""
