# merge, trim, compact, recover.
show() {
  echo "\$ tapedeck $*"
  "$T" "$@"
  code=$?
  [ $code = 0 ] || echo "= $code"
}
"$T" import "$F/four_layers.json" -o a.tape >/dev/null && "$T" plan a.tape --budget 60% >/dev/null
cp a.tape b.tape
ln -s a.tape link.tape
show merge a.tape b.tape -o both.tape
show verify both.tape
show sql both.tape "SELECT trace, count(*) FROM access GROUP BY 1; SELECT trace, schedule, count(*) FROM action GROUP BY 1, 2"
"$T" export both.tape --trace 2 --to interchange >two.json
"$T" export a.tape --to interchange | cmp - two.json
show merge a.tape link.tape -o c.tape
show merge a.tape b.tape -o b.tape
show merge a.tape nowhere.tape -o c.tape
show merge -o c.tape
show trim a.tape --ops 1:6 -o middle.tape
show verify middle.tape
show sql middle.tape "SELECT op, name FROM op; SELECT sid, activation, retained, freed_before_op FROM storage; SELECT * FROM mark"
show trim a.tape --ops 5:90 -o x.tape
show trim a.tape --ops 5 -o x.tape
show compact both.tape
show verify both.tape
show recover a.tape -o again.tape
"$T" import "$F/four_layers.json" -o plain.tape >/dev/null
"$T" export plain.tape --to interchange >plain.json
"$T" export again.tape --to interchange | cmp - plain.json
show recover nowhere.tape -o x.tape
echo "not a tape" >text.tape
show recover text.tape -o x.tape
rm -f *.json
ls
# What is read is not written over, and a private file stays private.
"$T" import "$F/four_layers.json" -o own.tape >/dev/null
cp "$F/four_layers.json" own.json
show export own.tape --to chrome -o own.tape
show import own.json -o own.json
show trim own.tape --ops 0:2 -o own.tape
show recover own.tape -o own.tape
chmod 600 own.tape && "$T" compact own.tape && stat -c %a own.tape
"$T" import "$F/four_layers.json" -o own.tape >/dev/null && stat -c %a own.tape
"$T" export own.tape --to chrome -o own.chrome && chmod 640 own.chrome && "$T" export own.tape --to chrome -o own.chrome && stat -c %a own.chrome
