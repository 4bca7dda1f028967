# A folder where nothing may be written: another user's, or, for root, one of a user that root becomes.
mkdir shut open
"$T" import "$F/four_layers.json" -o shut/step.tape >/dev/null
chmod 555 shut
as() {
  if [ "$(id -u)" -eq 0 ]; then setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; else "$@"; fi
}
chmod 755 . # the folder of the test is its owner's alone
as "$T" info shut/step.tape | head -n 1
as "$T" verify shut/step.tape
as "$T" import "$F/four_layers.json" -o shut/new.tape
echo "= $?"
as "$T" plan shut/step.tape --budget 60%
echo "= $?"
as "$T" view shut/step.tape -o shut/page.html
echo "= $?"
ls shut
chmod 755 shut
