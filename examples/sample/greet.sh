#!/bin/sh
# Greets in a language.
case "$1" in
  de) echo "Hallo, Kiln!" ;;
  fr) echo "Bonjour, Kiln !" ;;
  *) echo "Hello, Kiln!" ;;
esac
