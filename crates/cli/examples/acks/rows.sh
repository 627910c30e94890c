#!/bin/sh
# Rows with checksums: append a row, sync, acknowledge it. The check wants every acknowledged row.
#
#   rows.sh run DIR COUNT    appends rows 1 to COUNT to DIR/rows
#   rows.sh check DIR        rows 1 to $SEEKLESS_ACKED must be there and whole
#
# SEEKLESS_ACKS is a file to which the program appends what it has acknowledged, a value a line.
# `seekless ack` does the same, and also writes to the socket of `seekless record --acks`.

row() {
    printf '%s %s\n' "$1" "$(printf 'row %s' "$1" | cksum | cut -d ' ' -f 1)"
}

ack() {
    if [ -S "$SEEKLESS_ACKS" ]; then
        seekless ack "$1"
    else
        echo "$1" >> "$SEEKLESS_ACKS"
    fi
}

run() {
    file=$1/rows count=$2
    # The name of the file must be durable, too.
    : >> "$file" && sync "$file" "$1" || return 1
    n=1
    while [ "$n" -le "$count" ]; do
        row "$n" >> "$file" && sync "$file" && ack "$n" || return 1
        n=$((n + 1))
    done
}

check() {
    file=$1/rows n=0
    [ -n "$SEEKLESS_ACKED" ] || return 0
    [ -e "$file" ] || { echo "no rows: $SEEKLESS_ACKED acknowledged"; return 1; }
    while [ "$n" -lt "$SEEKLESS_ACKED" ]; do
        n=$((n + 1))
        # A row without its end of line is torn.
        IFS= read -r found <&3 || found=
        [ "$found" = "$(row "$n")" ] || { echo "row $n is lost or damaged"; return 1; }
    done 3< "$file"
}

case $1 in
run) run "$2" "$3" ;;
check) check "$2" ;;
*) echo "usage: rows.sh run DIR COUNT | rows.sh check DIR" >&2; exit 2 ;;
esac
