//! What a shell command asks for.

use super::{Analysis, PathArgument, analyse};

/// `patterns` and `always` are separated by ` ¦ `.
#[track_caller]
fn check(command: &str, patterns: &str, always: &str, paths: &str) {
    let list = |text: &str| -> Vec<String> {
        text.split(" ¦ ").filter(|item| !item.is_empty()).map(str::to_owned).collect()
    };
    let expected = Analysis {
        patterns: list(patterns),
        always: list(always),
        paths: list(paths).into_iter().map(|text| PathArgument { text }).collect(),
    };
    assert_eq!(analyse(command), expected, "{command}");
}

#[test]
fn lists_pipes_and_subshells_are_taken_apart() {
    check("ls", "ls", "ls *", "");
    check(
        "git commit -m x && npm run build",
        "git commit -m x ¦ npm run build",
        "git commit * ¦ npm run build *",
        "",
    );
    check("a; b", "a ¦ b", "a * ¦ b *", "");
    check("a || b & c", "a ¦ b ¦ c", "a * ¦ b * ¦ c *", "");
    check("cat x | grep y | wc -l", "cat x ¦ grep y ¦ wc -l", "cat * ¦ grep * ¦ wc *", "x");
    check("( ( ls ) )", "ls", "ls *", "");
    check("{ a; b; }", "a ¦ b", "a * ¦ b *", "");
    check("! grep a b", "grep a b", "grep *", "");
    check("ls -a; ls -b; ls -a", "ls -a ¦ ls -b", "ls *", "");
    check("ls # comment", "ls", "ls *", "");
    check("  ls  \n", "ls", "ls *", "");
}

#[test]
fn commands_inside_words_are_found() {
    check("echo $(id -u)", "echo $(id -u) ¦ id -u", "echo * ¦ id *", "");
    check("echo `id`", "echo `id` ¦ id", "echo * ¦ id *", "");
    check("echo \"a $(rm b) c\"", "echo \"a $(rm b) c\" ¦ rm b", "echo * ¦ rm *", "b");
    check("diff <(ls a) <(ls b)", "diff <(ls a) <(ls b) ¦ ls a ¦ ls b", "diff * ¦ ls *", "");
    check("X=$(curl u)", "curl u", "curl *", "");
    check("export A=$(id) && make all", "id ¦ make all", "id * ¦ make all *", "");
    check("cat <<< $(id)", "cat <<< $(id) ¦ id", "cat * ¦ id *", "");
    check("cd $(rm x)", "rm x", "rm *", "x");
}

#[test]
fn commands_inside_control_flow_are_found() {
    check("if true; then echo a; else echo b; fi", "true ¦ echo a ¦ echo b", "true * ¦ echo *", "");
    check("while read l; do rm x; done", "read l ¦ rm x", "read * ¦ rm *", "x");
    check("for i in 1 2; do rm $i; done", "rm $i", "rm *", "");
    check("case x in a) ls;; b) id;; esac", "ls ¦ id", "ls * ¦ id *", "");
    check("f() { rm x; }; f", "rm x ¦ f", "rm * ¦ f *", "x");
    check("function f { ls; }", "ls", "ls *", "");
    check("[[ -f x ]] && rm x", "rm x", "rm *", "x");
}

#[test]
fn redirections_belong_to_their_command() {
    check("echo hi > out.txt", "echo hi > out.txt", "echo *", "out.txt");
    check("make >> /tmp/log 2>&1", "make >> /tmp/log 2>&1", "make *", "/tmp/log");
    check("ls 2>/dev/null", "ls 2>/dev/null", "ls *", "");
    check("ls >&2", "ls >&2", "ls *", "");
    check("ls 2>&-", "ls 2>&-", "ls *", "");
    check("ls &> all", "ls &> all", "ls *", "all");
    check("a < in | b > out", "a < in ¦ b > out", "a * ¦ b *", "in ¦ out");
    check("(a; b) > out", "> out ¦ a ¦ b", "a * ¦ b *", "out");
    check("> out", "> out", "", "out");
    check("a && { b; } 2>/dev/null", "a ¦ b", "a * ¦ b *", "");
    check("cat <<EOF\nhi $(id)\nEOF", "cat <<EOF\nhi $(id)\nEOF ¦ id", "cat * ¦ id *", "");
    check("cd x > log", "cd x > log", "cd *", "x ¦ log");
}

#[test]
fn moving_about_is_a_path_and_no_pattern() {
    check("cd /tmp && ls", "ls", "ls *", "/tmp");
    check("cd", "", "", "");
    check("cd ..", "", "", "..");
    check("cd -", "", "", "");
    check("pushd a; popd", "", "", "a");
    check("cd 'a b'", "", "", "a b");
    check("", "", "", "");
    check("# only a comment", "", "", "");
}

#[test]
fn file_commands_name_their_paths() {
    check("rm -rf build dist", "rm -rf build dist", "rm *", "build ¦ dist");
    check("cp \"a b\" ~/c", "cp \"a b\" ~/c", "cp *", "a b ¦ ~/c");
    check("mv a\\ b 'c'/d", "mv a\\ b 'c'/d", "mv *", "a b ¦ c/d");
    check("cat /etc/*.conf", "cat /etc/*.conf", "cat *", "/etc/");
    check("rm *", "rm *", "rm *", "");
    check("cat */../../../x", "cat */../../../x", "cat *", "*/../../../x");
    check("rm $HOME/x \"$(pwd)/y\" z", "rm $HOME/x \"$(pwd)/y\" z ¦ pwd", "rm * ¦ pwd *", "z");
    check("cat {/etc/passwd,b}", "cat {/etc/passwd,b}", "cat *", "{/etc/passwd,b} ¦ /etc/passwd");
    check("ls /etc", "ls /etc", "ls *", "");
}

#[test]
fn always_takes_the_words_that_tell_what_is_done() {
    check("npm install", "npm install", "npm install *", "");
    check("npm run build --x", "npm run build --x", "npm run build *", "");
    check("docker compose up -d", "docker compose up -d", "docker compose up *", "");
    check("docker ps -a", "docker ps -a", "docker ps *", "");
    check("gh pr list", "gh pr list", "gh pr list *", "");
    check("aws s3", "aws s3", "aws s3 *", "");
    check("git", "git", "git *", "");
    check("git remote add o u", "git remote add o u", "git remote add *", "");
    check("A=1 B=2 cargo test --lib", "A=1 B=2 cargo test --lib", "cargo test *", "");
    check("./run.sh x", "./run.sh x", "./run.sh *", "");
    check("python -m x", "python -m x", "python -m *", "");
    check("npm run *", "npm run *", "", "");
}

#[test]
fn quoted_names_meet_the_rules_of_the_plain_ones() {
    check("\\rm x", "\\rm x ¦ rm x", "\\rm *", "x");
    check("\"git\" push", "\"git\" push ¦ git push", "\"git\" push *", "");
}

#[test]
fn what_is_not_understood_is_one_pattern_and_never_for_ever() {
    check("$X a", "$X a", "", "");
    check("$(which ls) -l", "$(which ls) -l ¦ which ls", "", "");
    check("eval \"rm x\"", "eval \"rm x\"", "", "");
    check("ls; $X; rm y", "ls; $X; rm y ¦ ls ¦ $X ¦ rm y", "", "y");
    check("export A=1", "export A=1", "", "");
    check("rm x 'unterminated", "rm x 'unterminated ¦ rm x", "", "x");
    assert_eq!(analyse("if then fi ((").always, Vec::<String>::new());
    assert!(analyse("a 'b").patterns.contains(&"a 'b".to_owned()));
}

#[test]
fn a_very_long_command_is_not_parsed() {
    let command = format!("echo {}", "x ".repeat(64 * 1024));
    let expected = Analysis { patterns: vec![command.trim().to_owned()], ..Analysis::default() };
    assert_eq!(analyse(&command), expected);
}

#[test]
fn nesting_does_not_exhaust_the_stack() {
    for open in ["(", "$(", "{ ", "((", "\"$(", "if "] {
        analyse(&open.repeat(20_000));
    }
}
