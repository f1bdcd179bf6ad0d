// Completion scripts: tables taken from the parser and the schema, then a function of each shell that reads
// them. What may follow a flag is what its help says: words to choose from, FILE, PATH, FOLDER, KEY=VALUE; N,
// HOST and TEXT offer nothing.
#include <functional>

#include <CLI/CLI.hpp>

#include "commands.h"
#include "config_keys.h"
#include "output.h"

namespace ampctl::cli {
namespace {

constexpr const char* kBashFunctions = R"(
# Offers what is expected ($1, such as auto|PATH) for what is typed ($2).
_ampctl_offer() {
  local kind found key IFS=$'|'
  local -a kinds=($1)
  IFS=$' \t\n'
  for kind in "${kinds[@]}"; do
    case $kind in
      N|HOST|TEXT) ;;
      FILE|PATH|FOLDER)
        mapfile -t found < <(compgen -f -- "$2")
        COMPREPLY+=("${found[@]}")
        compopt -o filenames 2>/dev/null ;;
      KEY=VALUE)
        if [[ $2 == *=* ]]; then
          key=${2%%=*}
          mapfile -t found < <(compgen -P "$key=" -W "${_ampctl_values[$key]}" -- "${2#*=}")
        else
          mapfile -t found < <(compgen -S = -W "$_ampctl_keys" -- "$2")
          compopt -o nospace 2>/dev/null
        fi
        COMPREPLY+=("${found[@]}") ;;
      *) mapfile -t found < <(compgen -W "$kind" -- "$2"); COMPREPLY+=("${found[@]}") ;;
    esac
  done
}

_ampctl() {
  COMPREPLY=()
  # Bash splits words at '=' and ':'; here they are taken whole.
  local line=${COMP_LINE:0:COMP_POINT} cur prev='' command=ampctl word start=''
  local -a words
  read -ra words <<< "$line"
  [[ $line == *[[:space:]] ]] && words+=('')
  cur=${words[-1]}
  unset 'words[-1]'
  for word in "${words[@]:1}"; do
    if [[ -n $prev ]]; then prev=''; continue; fi
    if [[ $word == -* && -n ${_ampctl_expects["$command $word"]} ]]; then prev=$word; continue; fi
    [[ " ${_ampctl_commands[$command]} " == *" $word "* ]] && command="$command $word"
  done
  if [[ -z $prev && $cur == --*=* ]]; then
    prev=${cur%%=*} start="${cur%%=*}=" cur=${cur#*=}
  fi
  if [[ -n $prev ]]; then
    _ampctl_offer "${_ampctl_expects["$command $prev"]}" "$cur"
  elif [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "${_ampctl_flags[$command]}" -- "$cur")
  else
    mapfile -t COMPREPLY < <(compgen -W "${_ampctl_commands[$command]}" -- "$cur")
    _ampctl_offer "${_ampctl_expects[$command]}" "$cur"
  fi
  # Readline replaces only what follows the last '=' where that breaks words.
  local whole="$start$cur" i
  if [[ $COMP_WORDBREAKS == *=* && $whole == *=* ]]; then
    local typed=${whole%"${whole##*=}"}
    typed=${typed#"$start"}
    for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=${COMPREPLY[i]#"$typed"}; done
  fi
}
complete -F _ampctl ampctl
)";

constexpr const char* kZshFunctions = R"(
# Offers what is expected ($1, such as auto|PATH).
_ampctl_offer() {
  local kind key
  for kind in ${(s:|:)1}; do
    case $kind in
      N|HOST|TEXT) ;;
      FILE|PATH|FOLDER) _files ;;
      KEY=VALUE)
        if [[ $PREFIX == *=* ]]; then
          key=${PREFIX%%=*}
          compset -P '*='
          compadd -- ${=_ampctl_values[$key]}
        else
          compadd -q -S = -- ${=_ampctl_keys}
        fi ;;
      *) compadd -- $kind ;;
    esac
  done
}

_ampctl() {
  local prev= command=ampctl word
  for word in ${words[2,CURRENT-1]}; do
    if [[ -n $prev ]]; then prev=; continue; fi
    if [[ $word == -* && -n ${_ampctl_expects[$command $word]} ]]; then prev=$word; continue; fi
    [[ " ${_ampctl_commands[$command]} " == *" $word "* ]] && command="$command $word"
  done
  if [[ -z $prev && $PREFIX == --*=* ]]; then
    prev=${PREFIX%%=*}
    compset -P '--[^=]##='
  fi
  if [[ -n $prev ]]; then
    _ampctl_offer "${_ampctl_expects[$command $prev]}"
  elif [[ $PREFIX == -* ]]; then
    compadd -- ${=_ampctl_flags[$command]}
  else
    compadd -- ${=_ampctl_commands[$command]}
    _ampctl_offer "${_ampctl_expects[$command]}"
  fi
}
if [[ ${funcstack[1]} == _ampctl ]]; then _ampctl "$@"; else compdef _ampctl ampctl; fi
)";

struct Tables {
  std::string commands;
  std::string flags;
  std::string expects;
  std::string keys;
  std::string values;
};

// The shells differ in how an associative array's entry is written.
using Entry = std::function<std::string(const std::string& key, const std::string& value)>;

std::string quoted(const std::string& text) {
  return "'" + CLI::detail::find_and_replace(text, "'", "'\\''") + "'";
}

std::string expected_after(const CLI::Option* option) {
  const std::string type = option->get_type_name();  // may end in ":RULE"
  return option->get_items_expected_max() == 0 ? "" : type.substr(0, type.find(':'));
}

void append_command(const CLI::App* app, const std::string& path, const Entry& entry, Tables& tables) {
  std::vector<std::string> commands;
  for (const auto* sub : app->get_subcommands([](const CLI::App* s) { return !s->get_group().empty(); })) {
    commands.push_back(sub->get_name());
    append_command(sub, path + " " + sub->get_name(), entry, tables);
  }
  std::vector<std::string> flags;
  std::string positional;
  for (const CLI::Option* option : app->get_options()) {
    const std::string expected = expected_after(option);
    if (option->get_positional() && positional.empty()) positional = expected;
    std::vector<std::string> names;
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
    for (const auto& name : option->get_snames()) names.push_back("-" + name);
    for (const auto& name : names) {
      flags.push_back(name);
      if (!expected.empty()) tables.expects += entry(path + " " + name, expected);
    }
  }
  if (!positional.empty()) tables.expects += entry(path, positional);
  if (!commands.empty()) tables.commands += entry(path, CLI::detail::join(commands, " "));
  tables.flags += entry(path, CLI::detail::join(flags, " "));
}

Tables make_tables(const CLI::App& app, const Entry& entry) {
  Tables tables;
  append_command(&app, app.get_name(), entry, tables);
  for (const auto& field : config_keys()) {
    tables.keys += (tables.keys.empty() ? "" : " ") + field.key;
    if (!field.values.empty()) tables.values += entry(field.key, CLI::detail::join(field.values, " "));
  }
  return tables;
}

std::string declarations(const Tables& tables) {
  const auto table = [](const char* name, const std::string& entries) {
    return std::string("typeset -gA ") + name + "=(\n" + entries + ")\n";
  };
  return table("_ampctl_commands", tables.commands) + table("_ampctl_flags", tables.flags) +
         table("_ampctl_expects", tables.expects) + table("_ampctl_values", tables.values) +
         "_ampctl_keys=" + quoted(tables.keys) + "\n";
}

std::string bash_entry(const std::string& key, const std::string& value) {
  return "  [" + quoted(key) + "]=" + quoted(value) + "\n";
}

std::string zsh_entry(const std::string& key, const std::string& value) {
  return "  " + quoted(key) + " " + quoted(value) + "\n";
}

}  // namespace

int run_completion(const CLI::App& app, const std::string& shell) {
  if (shell == "bash") {
    print("# bash completion for ampctl: source <(ampctl completion bash)\n" +
          declarations(make_tables(app, bash_entry)) + kBashFunctions);
  } else {
    print("#compdef ampctl\n# zsh completion for ampctl: source <(ampctl completion zsh)\n" +
          declarations(make_tables(app, zsh_entry)) + kZshFunctions);
  }
  return 0;
}

}  // namespace ampctl::cli
