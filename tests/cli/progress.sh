# A bar on a terminal, nothing in a pipe, and nothing left of what was stopped with Ctrl-C.
mkfifo pipe
python3 - >long.json <<'END'
print('{"ops": [' + ','.join('{"name": "op%d", "dur_ns": 1, "leaves": 1, "out": [], "acc": [[%d, "R"]]}' % (i, i % 7) for i in range(5000)))
print('], "storages": {' + ','.join('"%d": 64' % i for i in range(7)) + '}, "activation_sids": [], "retained": []}')
END
# The beginning of the trace, more than is read at once; after a while more of it, and after another the rest.
feed() {
  (head -c 70000 long.json; sleep 0.7; tail -c +70001 long.json | head -c 70000; sleep "$1"; tail -c +140001 long.json) >pipe &
}
feed 0
"$F/../cli/terminal.py" "'$T' import pipe -o step.tape" "+importing" "+step.tape: 5,000 ops"
wait
feed 0
"$T" import pipe -o step.tape
wait
feed 3
"$F/../cli/terminal.py" "'$T' import pipe -o stopped.tape" "+importing" "-\x03" "+\r\x1b[K"
wait
ls
# Colour too is for terminals, and for those who want it.
sed '5s/linear/conv/' "$F/four_layers.json" >other.json
"$T" import other.json -o other.tape >/dev/null && "$T" import "$F/four_layers.json" -o plain.tape >/dev/null
"$F/../cli/terminal.py" "'$T' diff plain.tape other.tape" "+\x1b[31m-" "+\x1b[32m+"
"$F/../cli/terminal.py" "NO_COLOR=1 '$T' diff plain.tape other.tape" "+- 2"
"$T" diff plain.tape other.tape | grep -c "$(printf '\033')"
