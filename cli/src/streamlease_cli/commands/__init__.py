"""The commands, a file each; `main.COMMANDS` lists them."""
