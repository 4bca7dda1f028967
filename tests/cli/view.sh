# A step as text and as a picture.
"$T" import "$F/four_layers.json" -o step.tape >/dev/null
"$T" view step.tape --text
"$T" plan step.tape --budget 60% >/dev/null
cp step.tape planned.tape
"$T" view step.tape --text
"$T" view step.tape --text --width 50
"$T" view step.tape --svg
"$T" view step.tape planned.tape --svg -o two.svg && grep -c '<g transform' two.svg
"$T" view step.tape planned.tape --text | grep tape
sed 's/"dur_ns": [0-9]*/"dur_ns": 0/' "$F/four_layers.json" >still.json
"$T" import still.json -o still.tape >/dev/null
"$T" view still.tape --text --width 60
printf '{"meta": {}, "ops": [], "storages": {}, "activation_sids": [], "retained": []}' >empty.json
"$T" import empty.json -o empty.tape >/dev/null
"$T" view empty.tape --text --width 40
"$T" view empty.tape --svg | tail -n 3
show() {
  echo "\$ tapedeck $*"
  "$T" "$@"
  echo "= $?"
}
show view step.tape
show view step.tape step.tape step.tape --text
show view step.tape --svg --text
show view step.tape --width 60 --svg
show view step.tape --text --width 12
show view step.tape --text --width wide
show view step.tape --text --schedule 7
show view step.tape gone.tape --text
show view step.tape --svg -o /dev/full
show view step.tape -o nowhere/page.html
ln -s step.tape link
show view step.tape planned.tape -o link
"$T" verify step.tape
ls
