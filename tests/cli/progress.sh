# A bar on a terminal, nothing in a pipe, and nothing left of what was stopped with Ctrl-C.
mkfifo pipe
# The beginning of the trace, after a while more of it, and after another the rest.
feed() {
  (head -c 300 "$F/four_layers.json"; sleep 0.7; tail -c +301 "$F/four_layers.json" | head -c 300; sleep "$1"; tail -c +601 "$F/four_layers.json") >pipe &
}
feed 0
"$F/../cli/terminal.py" "'$T' import pipe -o step.tape" "+importing" "+step.tape: 9 ops"
wait
feed 0
"$T" import pipe -o step.tape
wait
feed 2
"$F/../cli/terminal.py" "'$T' import pipe -o stopped.tape" "+importing" "-\x03" "+\r\x1b[K"
wait
ls
# Colour too is for terminals, and for those who want it.
sed '5s/linear/conv/' "$F/four_layers.json" >other.json
"$T" import other.json -o other.tape >/dev/null
"$F/../cli/terminal.py" "'$T' diff step.tape other.tape" "+\x1b[31m-" "+\x1b[32m+"
"$F/../cli/terminal.py" "NO_COLOR=1 '$T' diff step.tape other.tape" "+- 2"
"$T" diff step.tape other.tape | grep -c "$(printf '\033')"
