# The help of every verb, and what is made of the same tables: man pages and completions.
"$T" --help
for verb in $("$T" --verbs); do
  echo
  "$T" "$verb" --help
done
"$T" help plan | head -n 1
"$T" help plam
echo "= $?"
"$T" --man trim
for verb in "" $("$T" --verbs); do
  # shellcheck disable=SC2086
  "$T" --man $verb >page.1
  ! command -v groff >/dev/null || groff -man -Tutf8 -ww -z page.1
  ! command -v mandoc >/dev/null || mandoc -Tlint -Wwarning page.1 | grep -v "missing date"
done
for shell in bash zsh fish; do
  "$T" --completion $shell >completion.$shell
  ! command -v $shell >/dev/null || $shell -n completion.$shell
done
"$T" --completion tcsh
echo "= $?"
# Bash, as if typed.
complete() {
  bash -c '. ./completion.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tapedeck; echo "$* > ${COMPREPLY[*]}"' bash "$@"
}
touch one.tape two.tape
complete tapedeck ex
complete tapedeck plan one.tape --b
complete tapedeck plan one.tape --planner ""
complete tapedeck replay one.tape --device ""
complete tapedeck export one.tape --to c
complete tapedeck info o
"$F/../cli/terminal.py" "bash --norc --noprofile -i" "-. ./completion.bash\n" "-tapedeck expl\t" "+tapedeck explain " "-\x15tapedeck export x --to \t\t" \
  "+interchange" "-\x15exit\n"
if command -v fish >/dev/null; then
  fish --no-config -c 'source completion.fish; complete -C "tapedeck expl"' | cut -f 1 | grep -qx explain || echo "fish does not complete"
fi
