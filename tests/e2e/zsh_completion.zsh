# Calls the completion function with stand-ins for zsh's completion builtins, which work on the command line
# only, and compares what it offers. Usage: zsh -f zsh_completion.zsh PATH_OF_AMPCTL
setopt extended_glob  # as compinit sets it around completion functions
compdef() { : }
source <($1 completion zsh)

compadd() {
  while [[ $1 != -- ]]; do [[ $1 == -S ]] && shift; shift; done
  shift
  offers+=("$@")
}
compset() { PREFIX=${PREFIX##${~2}} }
_files() { offers+=(FILES) }

failures=0
expect() {  # a line with the cursor at its end, then the words offered
  local -a words=("${(@s: :)1}") offers=() matching=()
  local CURRENT=${#words} PREFIX=${words[-1]} offer
  shift
  _ampctl
  for offer in $offers; do
    [[ $offer == FILES || ${offer[1,${#PREFIX}]} == "$PREFIX" ]] && matching+=($offer)
  done
  [[ ${(j: :)${(o)matching}} == ${(j: :)${(o)@}} ]] || { print "'$words': expected '$*', found '$matching'"; ((++failures)) }
}

expect 'ampctl tr' train
expect 'ampctl config ' show validate diff schema
expect 'ampctl train --res' --resume
expect 'ampctl train --resume la' latest FILES
expect 'ampctl train --resume=la' latest FILES
expect 'ampctl train -c ' FILES
expect 'ampctl train --set amp.dty' amp.dtype
expect 'ampctl train seed=1 lr_schedule.warmup_e' lr_schedule.warmup_epochs
expect 'ampctl train amp.dtype=bf' bf16 bfloat16
expect 'ampctl train --set=amp.dtype=bf' bf16 bfloat16
expect 'ampctl config show -c diff --com' --comments
expect 'ampctl inspect ' FILES
expect 'ampctl train --seed '
expect 'ampctl launch --nproc-per-node ' auto gpu
expect 'ampctl launch --rdzv-endpoint '
((failures == 0)) && print "all as expected"
exit $((failures > 0))
