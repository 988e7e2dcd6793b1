//! What a shell command asks for.

use windlass_protocol::opencode::permission::Action;

use super::{Analysis, PathArgument, analyse, refusal};
use crate::{
    config::policy::Policy,
    config::rules::rule,
    permission::{Ask, Verdict, evaluate_all},
};

mod lists;
mod programs;

/// Lists are separated by ` ¦ `.
#[track_caller]
fn expect(command: &str, patterns: &str, always: &str, paths: &str, is_unknowable: bool) {
    let list = |text: &str| -> Vec<String> {
        text.split(" ¦ ").filter(|item| !item.is_empty()).map(str::to_owned).collect()
    };
    let expected = Analysis {
        patterns: list(patterns),
        always: list(always),
        paths: list(paths).into_iter().map(|text| PathArgument { text }).collect(),
        is_unknowable,
        ..Analysis::default()
    };
    let (globs, writes) = Default::default();
    assert_eq!(Analysis { globs, writes, ..analyse(command) }, expected, "{command}");
}

#[track_caller]
fn check(command: &str, patterns: &str, always: &str, paths: &str) {
    expect(command, patterns, always, paths, false);
}

/// A command that counts as any.
#[track_caller]
fn any(command: &str, patterns: &str, always: &str, paths: &str) {
    expect(command, patterns, always, paths, true);
}

#[test]
fn lists_pipes_and_control_flow_are_taken_apart() {
    check("ls", "ls", "ls *", "");
    check(
        "git commit -m x && npm run build",
        "git commit -m x ¦ npm run build",
        "git commit * ¦ npm run build *",
        "",
    );
    check("a || b & c", "a ¦ b ¦ c", "a * ¦ b * ¦ c *", "");
    check("cat x | grep y | wc -l", "cat x ¦ grep y ¦ wc -l", "cat * ¦ grep * ¦ wc *", "x");
    check("( ( ls ) )", "ls", "ls *", "");
    check("! grep a b", "grep a b", "grep *", "b");
    check("ls # comment", "ls", "ls *", "");
    check("echo $(id -u)", "echo $(id -u) ¦ id -u", "echo * ¦ id *", "");
    check("echo `id`", "echo `id` ¦ id", "echo * ¦ id *", "");
    check("echo \"a $(rm b) c\"", "echo \"a $(rm b) c\" ¦ rm b", "echo * ¦ rm *", "b");
    check("diff <(ls a) <(ls b)", "diff <(ls a) <(ls b) ¦ ls a ¦ ls b", "diff * ¦ ls *", "a ¦ b");
    check("X=$(curl u)", "curl u", "curl *", "");
    check("export A=$(id) && make all", "id ¦ make all", "id * ¦ make all *", "");
    check("cat <<< $(id)", "cat <<< $(id) ¦ id", "cat * ¦ id *", "");
    check("cd $(rm x)", "rm x", "rm *", "x");
    check("if true; then echo a; else echo b; fi", "true ¦ echo a ¦ echo b", "true * ¦ echo *", "");
    any("f() { rm x; }; f", "f() { rm x; }; f ¦ rm x ¦ f", "", "x");
    check("function f { ls; }", "ls", "ls *", "");
    check("[[ -f x ]] && rm x", "rm x", "rm *", "x");
}

#[test]
fn redirections_belong_to_their_command() {
    check("echo hi > out.txt", "echo hi > out.txt", "echo *", "out.txt");
    check("make >> /tmp/log 2>&1", "make >> /tmp/log 2>&1", "make *", "/tmp/log");
    check("(a; b) > out", "> out ¦ a ¦ b", "a * ¦ b *", "out");
    check("> out", "> out", "", "out");
    check("cat <<EOF\nhi $(id)\nEOF", "cat <<EOF\nhi $(id)\nEOF ¦ id", "cat * ¦ id *", "");
    check("cat <<'EOF'\nhi $(id)\nEOF", "cat <<'EOF'\nhi $(id)\nEOF", "cat *", "");
}

#[test]
fn the_directory_that_paths_start_from_follows_cd() {
    check("cd x > log", "cd x > log", "cd *", "x ¦ log");
    check("cd /tmp && ls", "ls", "ls *", "/tmp");
    check("cd .. && rm x", "rm x", "rm *", ".. ¦ ../x");
    check("cd sub; rm ../x", "rm ../x", "rm *", "sub ¦ ../x ¦ sub/../x");
    check("cd sub && cd .. && rm x", "rm x", "rm *", "sub ¦ sub/.. ¦ sub/../x");
    check("(cd sub); rm ../x", "rm ../x", "rm *", "sub ¦ ../x");
    check("false && cd sub; rm ../x", "false ¦ rm ../x", "false * ¦ rm *", "sub ¦ ../x ¦ sub/../x");
    check("cd a || cd b; rm c", "rm c", "rm *", "a ¦ b ¦ a/b ¦ c ¦ a/c ¦ b/c ¦ a/b/c");
    check("cd && rm x", "rm x", "rm *", "~/x");
    check("cd - && rm x", "rm x", "rm *", "x");
    check("cd /tmp && echo x > log", "echo x > log", "echo *", "/tmp ¦ log ¦ /tmp/log");
    check("pushd a; popd", "", "", "a");
}

#[test]
fn file_commands_name_their_paths() {
    check("rm -rf ~root/x", "rm -rf ~root/x", "rm *", "~root/x");
    check("rm ~/x ./a/../../b", "rm ~/x ./a/../../b", "rm *", "~/x ¦ ./a/../../b");
    check("rm -- -x", "rm -- -x", "rm *", "-x");
    check("cp -t /etc a", "cp -t /etc a", "cp *", "/etc ¦ a");
    check("cp --target-directory=/etc a", "cp --target-directory=/etc a", "cp *", "/etc ¦ a");
    check("rm $HOME/x", "rm $HOME/x", "rm *", "~/x");
    check("rm \"$HOME/x\"", "rm \"$HOME/x\"", "rm *", "~/x");
    check("cat \"${HOME}/a b\"", "cat \"${HOME}/a b\"", "cat *", "~/a b");
    check("dd if=/dev/sda of=/etc/x", "dd if=/dev/sda of=/etc/x", "dd *", "/dev/sda ¦ /etc/x");
    check("echo x | tee /etc/y", "echo x ¦ tee /etc/y", "echo * ¦ tee *", "/etc/y");
    check("rm *", "rm *", "rm *", "");
    check("cat */../../../x", "cat */../../../x", "cat *", "*/../../../x");
    check("cat {/etc/passwd,b}", "cat {/etc/passwd,b} ¦ cat /etc/passwd b", "cat *", "/etc/passwd ¦ b");
}

#[test]
fn assignments_and_paths_do_not_hide_the_name() {
    check(
        "A=1 B=2 cargo test --lib",
        "A=1 B=2 cargo test --lib ¦ cargo test --lib",
        "cargo test * ¦ A=1 B=2 cargo test *",
        "",
    );
    check("./run.sh x", "./run.sh x", "./run.sh *", "");
    check("bin/rm x", "bin/rm x", "bin/rm *", "x");
    check("cd /bin && ./rm x", "./rm x ¦ rm x", "rm * ¦ ./rm *", "/bin ¦ /bin/x");
    check("../../bin/rm x", "../../bin/rm x ¦ rm x", "rm * ¦ ../../bin/rm *", "x");
    check("cargo run *", "cargo run *", "", "");
}

#[test]
fn quotes_and_escapes_do_not_hide_the_name() {
    check("\\rm x", "\\rm x ¦ rm x", "rm * ¦ \\rm *", "x");
    check("\"git\" push", "\"git\" push ¦ git push", "git push * ¦ \"git\" push *", "");
    check("\"rm\" x", "\"rm\" x ¦ rm x", "rm * ¦ \"rm\" *", "x");
    check("/bin/rm x", "/bin/rm x ¦ rm x", "rm * ¦ /bin/rm *", "x");
    check("r''m x", "r''m x ¦ rm x", "rm * ¦ r''m *", "x");
    check("r'm' x", "r'm' x ¦ rm x", "rm * ¦ r'm' *", "x");
    check("$'rm' x", "$'rm' x ¦ rm x", "rm * ¦ $'rm' *", "x");
    check("$'\\x72\\x6d' x", "$'\\x72\\x6d' x ¦ rm x", "rm * ¦ $'\\x72\\x6d' *", "x");
    check("$'\\162m' x", "$'\\162m' x ¦ rm x", "rm * ¦ $'\\162m' *", "x");
    check("'r'\"m\" x", "'r'\"m\" x ¦ rm x", "rm * ¦ 'r'\"m\" *", "x");
    check("r\\m x", "r\\m x ¦ rm x", "rm * ¦ r\\m *", "x");
    check("r\\\nm x", "rm x ¦ r\\\nm x ¦ r m x", "rm * ¦ r *", "x");
    check("rm \\\n  -rf x", "rm   -rf x ¦ rm -rf x ¦ rm \\\n  -rf x", "rm *", "x");
    check("git log \\\n -1", "git log  -1 ¦ git log -1 ¦ git log \\\n -1", "git log *", "");
    check("git  push origin", "git  push origin ¦ git push origin", "git push * ¦ git  push *", "");
    check("git \"push\" origin", "git \"push\" origin ¦ git push origin", "git push * ¦ git \"push\" *", "");
    check("git pu\\sh", "git pu\\sh ¦ git push", "git push * ¦ git pu\\sh *", "");
    check("rm\t-rf x", "rm\t-rf x ¦ rm -rf x", "rm *", "x");
    check(">out rm x", ">out rm x ¦ rm x", "rm * ¦ >out rm *", "x ¦ out");
    check("git > x push -f", "git > x push -f ¦ git push -f", "git push * ¦ git > x push *", "x");
    check("rm>x y", "rm>x y ¦ rm y", "rm *", "y ¦ x");
    check("rm>x", "rm>x ¦ rm", "rm *", "x");
}

#[test]
fn names_that_are_computed_count_as_any_command() {
    any("$X a", "$X a", "", "");
    any("$(which ls) -l", "$(which ls) -l ¦ which ls", "", "");
    check("eval \"rm x\"", "eval \"rm x\" ¦ rm x", "rm * ¦ eval \"rm x\"", "x");
    check("eval rm x", "eval rm x ¦ rm x", "rm * ¦ eval rm x", "x");
    any("eval \"$X\"", "eval \"$X\"", "", "");
    any("eval $(cat x)", "eval $(cat x) ¦ cat x", "", "x");
    any("ls; $X; rm y", "ls; $X; rm y ¦ ls ¦ $X ¦ rm y", "", "y");
    check("export A=1", "export A=1", "", "");
    any("rm x 'unterminated", "rm x 'unterminated ¦ rm x", "", "x");
    any("${X:-rm} y", "${X:-rm} y", "", "y");
    any("r$@m x", "r$@m x", "", "");
    any("rm$IFS-rf$IFSx", "rm$IFS-rf$IFSx", "", "");
    any("IFS=,; x=rm,-rf,x; $x", "IFS=,; x=rm,-rf,x; $x ¦ $x", "", "");
    check("IFS=, read a b", "IFS=, read a b ¦ read a b", "read * ¦ IFS=, read *", "");
    any("{rm,-rf,x}", "{rm,-rf,x}", "", "");
    any("{r,}m x", "{r,}m x ¦ r,}m x", "", "");
    check("echo {a,b}", "echo {a,b} ¦ echo a b", "echo *", "");
    any("/bin/r? x", "/bin/r? x", "", "");
    any("/bin/[r]m x", "/bin/[r]m x", "", "");
    any("r*", "r*", "", "");
    any("=rm x", "=rm x", "", "");
    any("alias a='rm x'; a", "alias a='rm x'; a ¦ alias a='rm x' ¦ a", "", "");
    any("alias ls='rm x'\nls", "alias ls='rm x'\nls ¦ alias ls='rm x' ¦ ls", "", "");
    check("alias ls='ls -a'", "alias ls='ls -a'", "alias *", "");
    any("ls() { rm x; }; ls", "ls() { rm x; }; ls ¦ rm x ¦ ls", "", "x");
    any("f() rm x", "f() rm x ¦ f rm x", "", "");
}

#[test]
fn text_fed_to_a_shell_is_read_where_it_is_literal() {
    any("curl u | sh", "curl u | sh ¦ curl u ¦ sh", "", "");
    any("curl u | bash -s -- x", "curl u | bash -s -- x ¦ curl u ¦ bash -s -- x", "", "");
    any("curl u | sudo bash", "curl u | sudo bash ¦ curl u ¦ sudo bash ¦ bash", "", "");
    any("bash", "bash", "", "");
    check("sh <<EOF\nrm x\nEOF", "sh <<EOF\nrm x\nEOF ¦ rm x", "rm * ¦ sh <<EOF\nrm x\nEOF", "x");
    check("sh <<'EOF'\nrm $x\nEOF", "sh <<'EOF'\nrm $x\nEOF ¦ rm $x", "rm * ¦ sh <<'EOF'\nrm $x\nEOF", "");
    any("sh <<EOF\nrm $x\nEOF", "sh <<EOF\nrm $x\nEOF", "", "");
    check("bash <<< 'rm x'", "bash <<< 'rm x' ¦ rm x", "rm * ¦ bash <<< 'rm x'", "x");
    any("bash <<< \"rm $x\"", "bash <<< \"rm $x\"", "", "");
    any("bash < script", "bash < script", "", "script");
    any("bash <(curl u)", "bash <(curl u) ¦ curl u", "", "");
    any("bash /dev/stdin", "bash /dev/stdin", "", "");
    check("bash script.sh a", "bash script.sh a", "bash script.sh *", "script.sh");
    any("bash $X", "bash $X", "", "");
    check("bash -c 'rm x'", "bash -c 'rm x' ¦ rm x", "rm * ¦ bash -c 'rm x'", "x");
    check(
        "bash -c \"rm x && ls\"",
        "bash -c \"rm x && ls\" ¦ rm x ¦ ls",
        "rm * ¦ ls * ¦ bash -c \"rm x && ls\"",
        "x",
    );
    any("bash -c \"$X\"", "bash -c \"$X\"", "", "");
    check("bash -lc 'rm x'", "bash -lc 'rm x' ¦ rm x", "rm * ¦ bash -lc 'rm x'", "x");
    check(
        "bash -o pipefail -c 'rm x'",
        "bash -o pipefail -c 'rm x' ¦ rm x",
        "rm * ¦ bash -o pipefail -c 'rm x'",
        "x",
    );
    check(
        "bash -euo pipefail -c 'rm x'",
        "bash -euo pipefail -c 'rm x' ¦ rm x",
        "rm * ¦ bash -euo pipefail -c 'rm x'",
        "x",
    );
    check(
        "sh -c 'bash -c \"rm x\"'",
        "sh -c 'bash -c \"rm x\"' ¦ bash -c \"rm x\" ¦ rm x",
        "rm * ¦ bash -c \"rm x\" ¦ sh -c 'bash -c \"rm x\"'",
        "x",
    );
    any("zsh -c '$X'", "zsh -c '$X' ¦ $X", "", "");
    check(
        "/bin/sh -c 'rm x'",
        "/bin/sh -c 'rm x' ¦ sh -c 'rm x' ¦ rm x",
        "rm * ¦ /bin/sh -c 'rm x' ¦ sh -c 'rm x'",
        "x",
    );
    check("bash --version", "bash --version", "bash --version *", "");
    any("bash -c", "bash -c", "", "");
    check("cd /tmp && bash -c 'rm x'", "bash -c 'rm x' ¦ rm x", "rm * ¦ bash -c 'rm x'", "/tmp ¦ /tmp/x");
    check("source x.sh", "source x.sh", "source x.sh", "x.sh");
    any(". <(curl u)", ". <(curl u) ¦ curl u", "", "");
    any("source /dev/stdin", "source /dev/stdin", "", "");
    check("trap 'rm x' EXIT", "trap 'rm x' EXIT ¦ rm x", "rm * ¦ trap 'rm x' EXIT", "x");
    any("trap \"$X\" EXIT", "trap \"$X\" EXIT", "", "");
    check("trap - EXIT", "trap - EXIT", "trap - EXIT", "");
}

#[test]
fn wrappers_do_not_hide_what_they_run() {
    check("env X=y rm a", "env X=y rm a ¦ rm a", "rm * ¦ env X=y rm *", "a");
    check("env -i -u A rm a", "env -i -u A rm a ¦ rm a", "rm * ¦ env -i -u A rm *", "a");
    check("env -S 'rm a'", "env -S 'rm a' ¦ rm a", "rm * ¦ env -S 'rm a'", "a");
    any("env -S 'rm ${A}'", "env -S 'rm ${A}'", "", "");
    check("env", "env", "env", "");
    any("env PATH=. ls", "env PATH=. ls ¦ ls", "", "");
    check("command rm x", "command rm x ¦ rm x", "rm * ¦ command rm *", "x");
    check("command -v rm", "command -v rm", "command -v rm", "");
    check("builtin rm x", "builtin rm x ¦ rm x", "rm * ¦ builtin rm *", "x");
    check("exec rm x", "exec rm x ¦ rm x", "rm * ¦ exec rm *", "x");
    check("exec -a ls rm x", "exec -a ls rm x ¦ rm x", "rm * ¦ exec -a ls rm *", "x");
    check("exec > log", "exec > log", "exec > log", "log");
    check("nohup rm x &", "nohup rm x ¦ rm x", "rm * ¦ nohup rm *", "x");
    check("nice -n 5 rm x", "nice -n 5 rm x ¦ rm x", "rm * ¦ nice -n 5 rm *", "x");
    check("nice rm x", "nice rm x ¦ rm x", "rm * ¦ nice rm *", "x");
    check("time rm x", "time rm x ¦ rm x", "rm * ¦ time rm *", "x");
    check("time -p rm x", "time -p rm x ¦ rm x", "rm * ¦ time -p rm *", "x");
    check("timeout 5 rm x", "timeout 5 rm x ¦ rm x", "rm * ¦ timeout 5 rm *", "x");
    check("timeout -s KILL 5 rm x", "timeout -s KILL 5 rm x ¦ rm x", "rm * ¦ timeout -s KILL 5 rm *", "x");
    check(
        "timeout --signal=KILL 5 rm x",
        "timeout --signal=KILL 5 rm x ¦ rm x",
        "rm * ¦ timeout --signal=KILL 5 rm *",
        "x",
    );
    check("timeout -- 5 rm x", "timeout -- 5 rm x ¦ rm x", "rm * ¦ timeout -- 5 rm *", "x");
    check("sudo rm x", "sudo rm x ¦ rm x", "rm * ¦ sudo rm *", "x");
    check("sudo -u root -n rm x", "sudo -u root -n rm x ¦ rm x", "rm * ¦ sudo -u root -n rm *", "x");
    check("sudo --user root rm x", "sudo --user root rm x ¦ rm x", "rm * ¦ sudo --user root rm *", "x");
    check("sudo A=1 rm x", "sudo A=1 rm x ¦ rm x", "rm * ¦ sudo A=1 rm *", "x");
    check("sudo -l", "sudo -l", "sudo -l", "");
    any("sudo -s", "sudo -s", "", "");
    check(
        "sudo bash -c 'rm x'",
        "sudo bash -c 'rm x' ¦ bash -c 'rm x' ¦ rm x",
        "rm * ¦ bash -c 'rm x' ¦ sudo bash -c 'rm x'",
        "x",
    );
    check(
        "sudo env nice timeout 5 rm x",
        "sudo env nice timeout 5 rm x ¦ env nice timeout 5 rm x ¦ nice timeout 5 rm x ¦ timeout 5 rm x ¦ rm x",
        "rm * ¦ timeout 5 rm * ¦ nice timeout 5 rm * ¦ env nice timeout 5 rm * ¦ sudo env nice timeout 5 rm *",
        "x",
    );
    any("sudo $X", "sudo $X", "", "");
    check("doas -u root rm x", "doas -u root rm x ¦ rm x", "rm * ¦ doas -u root rm *", "x");
    check("coproc rm x", "coproc rm x ¦ rm x", "rm * ¦ coproc rm *", "x");
    check("xargs rm", "xargs rm ¦ rm", "rm * ¦ xargs rm *", "");
    check("ls | xargs -n 1 rm -f", "ls ¦ xargs -n 1 rm -f ¦ rm -f", "ls * ¦ rm * ¦ xargs -n 1 rm *", "");
    check("xargs -I{} rm {}", "xargs -I{} rm {} ¦ rm {}", "rm * ¦ xargs -I{} rm *", "{}");
    any("xargs -I{} sh -c 'rm {}'", "xargs -I{} sh -c 'rm {}'", "", "");
    any("xargs -I X X a", "xargs -I X X a", "", "");
    any("xargs sh", "xargs sh", "", "");
    any("xargs sudo", "xargs sudo", "", "");
    check("xargs", "xargs", "xargs", "");
    check("xargs -0 -P4 git add", "xargs -0 -P4 git add ¦ git add", "git add * ¦ xargs -0 -P4 git add *", "");
    check("find . -name x", "find . -name x", "find . -name x", "");
    check("find . -exec rm {} \\;", "find . -exec rm {} \\; ¦ rm {}", "rm * ¦ find . -exec rm *", "{}");
    check("find . -exec rm {} +", "find . -exec rm {} + ¦ rm {}", "rm * ¦ find . -exec rm *", "{}");
    check(
        "find . -execdir rm {} ';' -ok mv {} y \\;",
        "find . -execdir rm {} ';' -ok mv {} y \\; ¦ rm {} ¦ mv {} y",
        "rm * ¦ mv * ¦ find . -execdir rm * ¦ find . -execdir rm {} ';' -ok mv *",
        "{} ¦ y",
    );
    check(
        "find . -exec sh -c 'rm \"$1\"' _ {} \\;",
        "find . -exec sh -c 'rm \"$1\"' _ {} \\; ¦ sh -c 'rm \"$1\"' _ {} ¦ rm \"$1\"",
        "rm * ¦ sh -c 'rm \"$1\"' _ {} ¦ find . -exec sh -c 'rm \"$1\"' _ {} \\;",
        "",
    );
    any("find . -exec sh -c 'rm {}' \\;", "find . -exec sh -c 'rm {}' \\;", "", "");
    any("find . -exec {} \\;", "find . -exec {} \\;", "", "");
    check("find . -delete", "find . -delete", "find . -delete", "");
    check("fd -x rm", "fd -x rm ¦ rm", "rm * ¦ fd -x rm *", "");
    check("ssh host rm x", "ssh host rm x ¦ rm x", "rm * ¦ ssh host rm x", "");
}

#[test]
fn git_options_do_not_hide_the_subcommand() {
    check(
        "git -c user.name=me commit -m x",
        "git -c user.name=me commit -m x ¦ git commit -m x",
        "git commit * ¦ git -c user.name=me commit *",
        "",
    );
    any("git -c \"$X\" log", "git -c \"$X\" log", "", "");
    check("git -C sub push", "git -C sub push ¦ git push", "git push * ¦ git -C sub push *", "sub");
    check(
        "git -C /etc status",
        "git -C /etc status ¦ git status",
        "git status * ¦ git -C /etc status *",
        "/etc",
    );
    check(
        "git --no-pager log -1",
        "git --no-pager log -1 ¦ git log -1",
        "git log * ¦ git --no-pager log *",
        "",
    );
    check(
        "git --git-dir=x push",
        "git --git-dir=x push ¦ git push",
        "git push * ¦ git --git-dir=x push *",
        "x",
    );
}

#[test]
fn what_git_runs_by_its_settings_and_options_counts_by_its_name() {
    let runs = |command: &str, expected: &[&str], is_unknowable: bool| {
        let analysis = analyse(command);
        for pattern in expected {
            assert!(analysis.patterns.iter().any(|it| it == pattern), "{command}: {analysis:?}");
        }
        assert_eq!(analysis.is_unknowable, is_unknowable, "{command}: {analysis:?}");
    };
    runs("git -c alias.x='!rm y' x z", &["rm y z", "git x z"], false);
    runs("git -c alias.x=push x -f", &["git push -f"], false);
    runs("git -c core.pager='rm x' log", &["rm x", "git log"], false);
    runs("git -c core.pager=cat -c core.editor=vi log", &["cat", "vi"], false);
    runs("git -c core.sshCommand='rm x' fetch", &["rm x"], false);
    runs("git -c core.fsmonitor=./evil status", &["./evil"], false);
    runs("git -c core.fsmonitor=false status", &["git status"], false);
    runs("git -c diff.pdf.textconv='rm x' log -p", &["rm x"], false);
    runs("git -c credential.helper='!rm x' fetch", &["rm x"], false);
    runs("git -c credential.helper=store fetch", &["git credential-store"], false);
    runs("git -c some.thing=x log", &["git log"], true);
    runs("git -c include.path=/tmp/x log", &["git log"], true);
    runs("git --exec-path=x log", &["git log"], true);
    runs("git --config-env=core.pager=X log", &["git log"], true);
    runs("git rebase --exec 'rm x' main", &["rm x"], false);
    runs("git rebase -x 'rm x'", &["rm x"], false);
    runs("git bisect run rm x", &["rm x"], false);
    runs("git submodule foreach --recursive 'rm x'", &["rm x"], false);
    runs("git clone ext::sh", &[], true);
    runs("git clone -c core.pager='rm x' u", &["rm x"], false);
    runs("git fetch --upload-pack='rm x' o", &["rm x"], false);
    runs("git fetch --upload-pac 'rm x' o", &["rm x"], false);
    runs("git config alias.x '!rm y'", &["rm y"], true);
    runs("git config alias.st status", &["git status"], false);
    runs("git config core.pager 'rm x'", &["rm x"], true);
    runs("git config core.hooksPath x", &[], true);
    runs("git config user.name me", &[], false);
    runs("git config --get core.pager", &[], false);
    check("git config user.name me", "git config user.name me", "git config user.name *", "");
    check("git bisect run rm x", "git bisect run rm x ¦ rm x", "rm * ¦ git bisect run rm *", "x");
    check(
        "GIT_SSH_COMMAND='rm x' git fetch",
        "GIT_SSH_COMMAND='rm x' git fetch ¦ git fetch ¦ rm x",
        "git fetch * ¦ GIT_SSH_COMMAND='rm x' git fetch * ¦ rm *",
        "x",
    );
}

#[test]
fn variables_that_steer_programs_count() {
    check(
        "GIT_PAGER='rm x' git log",
        "GIT_PAGER='rm x' git log ¦ git log ¦ rm x",
        "git log * ¦ GIT_PAGER='rm x' git log * ¦ rm *",
        "x",
    );
    check(
        "GIT_PAGER=cat git log",
        "GIT_PAGER=cat git log ¦ git log ¦ cat",
        "git log * ¦ GIT_PAGER=cat git log * ¦ cat *",
        "",
    );
    any("EDITOR=\"$X\" git commit", "EDITOR=\"$X\" git commit ¦ git commit", "", "");
    any("PATH=/x:$PATH ls", "PATH=/x:$PATH ls ¦ ls", "", "");
    any("export PATH=/x", "export PATH=/x", "", "");
    any("LD_PRELOAD=./x ls", "LD_PRELOAD=./x ls ¦ ls", "", "");
    any("BASH_ENV=x bash y", "BASH_ENV=x bash y ¦ bash y", "", "y");
    any("PROMPT_COMMAND='rm x'", "PROMPT_COMMAND='rm x'", "", "");
    any("x='$(rm y)'; echo $((x))", "x='$(rm y)'; echo $((x)) ¦ echo $((x))", "", "");
    any("echo ${x@P}", "echo ${x@P}", "", "");
    any("for PATH in x; do ls; done", "for PATH in x; do ls; done ¦ ls", "", "");
    any("read PATH < x", "read PATH < x", "", "x");
}

#[test]
fn what_only_looks_like_a_command_raises_nothing() {
    check("echo rm", "echo rm", "echo *", "");
    check("echo \"rm -rf /\"", "echo \"rm -rf /\"", "echo *", "");
    check("echo 'rm x; ls'", "echo 'rm x; ls'", "echo *", "");
    check("# rm x", "", "", "");
    check("ls # rm x", "ls", "ls *", "");
    check("git commit -m \"rm -rf /\"", "git commit -m \"rm -rf /\"", "git commit *", "");
    check("grep rm x", "grep rm x", "grep *", "x");
    check("printf '%s' 'a; rm b'", "printf '%s' 'a; rm b' ¦ printf %s 'a; rm b'", "printf *", "");
}

#[test]
fn rarer_wrappers_are_seen_through() {
    check("watch -n 1 rm x", "watch -n 1 rm x ¦ rm x", "rm * ¦ watch -n 1 rm x", "x");
    check("flock /tmp/l rm x", "flock /tmp/l rm x ¦ rm x", "rm * ¦ flock /tmp/l rm *", "x");
    check("flock /tmp/l -c 'rm x'", "flock /tmp/l -c 'rm x' ¦ rm x", "rm * ¦ flock /tmp/l -c 'rm x'", "x");
    check("su -c 'rm x'", "su -c 'rm x' ¦ rm x", "rm * ¦ su -c 'rm x'", "x");
    any("su root", "su root", "", "");
    check("script -c 'rm x' log", "script -c 'rm x' log ¦ rm x", "rm * ¦ script -c 'rm x' log", "log ¦ x");
    check("setsid rm x", "setsid rm x ¦ rm x", "rm * ¦ setsid rm *", "x");
    check("stdbuf -oL rm x", "stdbuf -oL rm x ¦ rm x", "rm * ¦ stdbuf -oL rm *", "x");
    check("busybox rm x", "busybox rm x ¦ rm x", "rm * ¦ busybox rm *", "x");
    any("parallel rm ::: x", "parallel rm ::: x", "", "");
    any("hash -p /x ls", "hash -p /x ls", "", "");
}

#[test]
fn substitutions_in_any_word_are_found() {
    check("a=(1 $(rm x))", "rm x", "rm *", "x");
    check("echo $(( $(rm x) + 1 ))", "echo $(( $(rm x) + 1 )) ¦ rm x", "echo * ¦ rm *", "x");
    check("echo ${x:-$(rm y)}", "echo ${x:-$(rm y)} ¦ rm y", "echo * ¦ rm *", "y");
    check("case $(rm x) in a) ls;; esac", "rm x ¦ ls", "rm * ¦ ls *", "x");
    check("while read l; do rm \"$l\"; done < in", "< in ¦ read l ¦ rm \"$l\"", "read * ¦ rm *", "in");
    check("[ -f x ] || rm y", "rm y", "rm *", "y");
    any("coproc N { rm x; }", "coproc N { rm x; } ¦ coproc N { rm x ¦ N { rm x ¦ }", "", "");
    check("tee >(rm x) < y", "tee >(rm x) < y ¦ rm x", "tee * ¦ rm *", "x ¦ y");
    check("ls |& rm x", "ls ¦ rm x", "ls * ¦ rm *", "x");
    check("echo a;rm x", "echo a ¦ rm x", "echo * ¦ rm *", "x");
    check("echo a&&rm x", "echo a ¦ rm x", "echo * ¦ rm *", "x");
    check("echo a\nrm x", "echo a ¦ rm x", "echo * ¦ rm *", "x");
    check("echo a #\\\nrm x", "echo a ¦ rm x", "echo * ¦ rm *", "x");
    any(
        "cat <<'EOF'\nfoo\\\nEOF\nrm x",
        "cat <<'EOF'\nfoo\\\nEOF\nrm x ¦ cat <<<'fooEOF\nrm x\n' ¦ cat <<'EOF'\nfooEOF\nrm x ¦ cat ¦ cat <<'EOF'\nfoo\\\nEOF ¦ rm x",
        "",
        "x",
    );
    check("echo \\\\\nrm x", "echo \\\\ ¦ rm x", "echo * ¦ rm *", "x");
    check(
        "bash -c 'r\\\nm x'",
        "bash -c 'rm x' ¦ rm x ¦ bash -c 'r\\\nm x' ¦ r\\\nm x ¦ r m x",
        "rm * ¦ bash -c 'rm x' ¦ r * ¦ bash -c 'r\\\nm x'",
        "x",
    );
    check("ls; # \nrm x", "ls ¦ rm x", "ls * ¦ rm *", "x");
    check("time", "time", "time", "");
    any("'' x", "'' x", "", "");
    any("\"\" x", "\"\" x", "", "");
    check("\"a b\" c", "\"a b\" c", "\"a b\" *", "");
    check("sudo -- rm x", "sudo -- rm x ¦ rm x", "rm * ¦ sudo -- rm *", "x");
    check("command -- rm x", "command -- rm x ¦ rm x", "rm * ¦ command -- rm *", "x");
    check("npx rimraf x", "npx rimraf x ¦ rimraf x", "rimraf * ¦ npx rimraf *", "");
    any("python -c 'x'", "python -c 'x' ¦ python -c x", "", "");
    check("! sudo rm x", "sudo rm x ¦ rm x", "rm * ¦ sudo rm *", "x");
    any(
        "sudo sudo sudo sudo sudo sudo sudo sudo rm x",
        "sudo sudo sudo sudo sudo sudo sudo sudo rm x ¦ sudo sudo sudo sudo sudo sudo sudo rm x ¦ sudo sudo sudo sudo sudo sudo rm x ¦ sudo sudo sudo sudo sudo rm x ¦ sudo sudo sudo sudo rm x ¦ sudo sudo sudo rm x ¦ sudo sudo rm x ¦ sudo rm x",
        "",
        "",
    );
    check("for i in a; do sudo rm $i; done", "sudo rm $i ¦ rm $i", "rm * ¦ sudo rm *", "a");
}

#[test]
fn always_takes_the_words_that_tell_what_is_done() {
    for (command, expected) in [
        ("npm install", "npm install *"),
        ("npm run build --x", "npm run build *"),
        ("docker compose up -d", "docker compose up *"),
        ("docker ps -a", "docker ps *"),
        ("gh pr list", "gh pr list *"),
        ("aws s3", "aws s3 *"),
        ("git", "git *"),
        ("git remote add o u", "git remote add *"),
        ("python -m x", "python -m *"),
    ] {
        check(command, command, expected, "");
    }
}

#[test]
fn a_denied_command_is_met_however_it_is_written() {
    let rules = [rule("bash", "*", Action::Allow), rule("bash", "rm *", Action::Deny)];
    for command in [
        "rm x",
        "\\rm x",
        "\"rm\" x",
        "r''m x",
        "$'rm' x",
        "/bin/rm x",
        "../../bin/rm x",
        "cd /bin; ./rm x",
        "A=1 rm x",
        ">o rm x",
        "rm>o x",
        "rm\tx",
        "r\\\nm x",
        "sudo rm x",
        "sudo -u a env B=1 nice -n 5 timeout 3 rm x",
        "ls | xargs rm",
        "find . -exec rm {} +",
        "bash -c 'rm x'",
        "sh -c \"bash -c 'rm x'\"",
        "eval 'rm x'",
        "bash <<< 'rm x'",
        "sh <<EOF\nrm x\nEOF",
        "echo $(rm x)",
        "echo `rm x`",
        "cat <(rm x)",
        "cat <<EOF\n$(rm x)\nEOF",
        "f() { rm x; }",
        "coproc rm x",
        "trap 'rm x' EXIT",
        "git bisect run rm x",
        "GIT_PAGER='rm x' git log",
        "(cd a && rm x) &",
        "echo \"$(echo \"$(rm x)\")\"",
        "X=$(rm x) true",
        "exec -a ls rm x",
        "command -p rm x",
        "if rm x; then :; fi",
        "! rm x",
        "echo a #\\\nrm x",
        "while :; do rm x; done",
        "ls &rm x",
        "time -p rm x",
    ] {
        let ask = Ask {
            permission: "bash".to_owned(),
            patterns: analyse(command).patterns,
            always: Vec::new(),
            metadata: Default::default(),
        };
        assert!(
            matches!(evaluate_all(&ask, &Policy::new(rules.to_vec()), &[]), Verdict::Deny { .. }),
            "{command}: {ask:?}"
        );
    }
}

#[test]
fn what_always_offers_covers_the_command_that_asked() {
    for command in [
        "git log -1",
        "\\rm x",
        "/bin/rm x",
        "A=1 cargo test",
        "sudo rm x",
        "sudo bash -c 'ls a'",
        "/bin/sh -c 'ls a'",
        "find . -name x -exec rm {} +",
        "timeout 5 git -C sub push",
        "env A=1 nice make all",
        "ls | xargs -n 1 rm",
        "echo hi > out",
        "cd a && ls",
        "git  push",
        "flock f -c 'rm x'",
    ] {
        let analysis = analyse(command);
        let answers: Vec<_> =
            analysis.always.iter().map(|pattern| rule("bash", pattern, Action::Allow)).collect();
        let ask = Ask {
            permission: "bash".to_owned(),
            patterns: analysis.patterns,
            always: Vec::new(),
            metadata: Default::default(),
        };
        assert_eq!(
            evaluate_all(&ask, &Policy::new(Vec::new()), &answers),
            Verdict::Allow,
            "{command}: {answers:?} {ask:?}"
        );
    }
}

#[test]
fn no_wrapper_is_allowed_by_its_name_alone() {
    let wrappers =
        ["sudo", "env", "xargs", "bash", "sh", "nohup", "timeout", "doas", "find", "eval", "exec", "command"];
    for wrapper in wrappers {
        for command in [
            wrapper.to_owned(),
            format!("{wrapper} -v"),
            format!("{wrapper} -c 'ls'"),
            format!("{wrapper} 5 ls"),
        ] {
            let always = analyse(&command).always;
            assert!(!always.contains(&format!("{wrapper} *")), "{command}: {always:?}");
        }
    }
}

#[test]
fn characters_that_hide_what_runs_are_refused() {
    for command in [
        "rm\u{a0}x",
        "ls\u{3000}-a",
        "ls;\u{2003}rm x",
        "ls\r\nrm x",
        "ls\rrm x",
        "ls\0rm",
        "echo '\u{202e}x'",
        "ls\u{1b}[2K",
        "ls\u{2028}rm",
        "r\u{200b}m x",
        "\u{feff}ls",
        "ls\u{b}x",
        "rm \u{ad}x",
        "ls\u{85}x",
        "echo \u{2066}x",
    ] {
        assert!(refusal(command).is_some(), "{command:?}");
    }
    for command in [
        "ls -a",
        "a\n\tb",
        "git commit -m 'a\u{a0}b'",
        "echo \"a\u{3000}b\"",
        "cat <<EOF\na\u{a0}b\nEOF",
        "ls # a\u{a0}b",
        "echo é 日本",
        "git commit -m \"👨\u{200d}👩\"",
    ] {
        assert_eq!(refusal(command), None, "{command:?}");
    }
}

#[test]
fn a_very_long_command_is_not_parsed() {
    let command = format!("echo {}", "x ".repeat(64 * 1024));
    let analysis = analyse(&command);
    assert_eq!(analysis.patterns, [command.trim()]);
    assert!(analysis.is_unknowable && analysis.always.is_empty());
}

#[test]
fn nesting_does_not_exhaust_the_stack_or_time() {
    for open in [
        "(",
        "$(",
        "{ ",
        "((",
        "\"$(",
        "if ",
        "a && ",
        "a | ",
        "sudo ",
        "xargs ",
        "env -u A ",
        "bash -c '",
        "find -exec ",
    ] {
        let analysis = analyse(&format!("{}ls", open.repeat(5_000)));
        assert!(!analysis.patterns.is_empty(), "{open}");
    }
    assert!(analyse(&format!("{}rm x", "a && ".repeat(1_000))).patterns.contains(&"rm x".to_owned()));
}

#[test]
fn links_that_lead_into_one_another_do_not_exhaust_time() {
    let links = |n: usize| (0..n).map(|n| format!("ln -s d/q{n} d/; ")).collect::<String>() + "echo x > d/y";
    assert!(!analyse(&links(2)).is_unknowable);
    assert!(analyse(&links(2_000)).is_unknowable);
}
