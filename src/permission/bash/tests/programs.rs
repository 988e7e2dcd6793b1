//! What programs do with their arguments.

use windlass_protocol::opencode::permission::Action;

use crate::{
    config::{policy::Policy, rules::rule},
    permission::{Ask, Verdict, bash::analyse, evaluate_all},
};

/// Counts as any command: its arguments hold code or commands that are not known.
#[test]
fn code_in_arguments_counts_as_any_command() {
    for command in [
        "python -c 'import os'",
        "python3 -Bc x",
        "python3.12 -c x",
        "python <<EOF\nx\nEOF",
        "echo x | python3 -",
        "perl -e 'unlink x'",
        "perl -ne x f",
        "perl -pi -e s/a/b/ f",
        "ruby -e x",
        "node -e x",
        "node --eval=x",
        "bun -e x",
        "deno eval x",
        "php -r x",
        "lua -e x",
        "osascript -e x",
        "awk 'BEGIN{system(\"rm x\")}'",
        "awk '{print | \"rm x\"}' f",
        "awk '{print > \"/etc/x\"}' f",
        "awk '\"rm x\" | getline'",
        "gawk -e x",
        "awk \"$X\" f",
        "sed '1e rm x' f",
        "sed 's/a/rm x/e' f",
        "sed -n 's/a/b/ge;p' f",
        "sed \"$X\" f",
        "sed e f",
        "vim -c '!rm x'",
        "vim '+!rm x'",
        "nvim --cmd x",
        "ex -s f",
        "less '+!rm x' f",
        "emacs --eval x",
        "emacs --batch -l f",
        "gdb -ex 'shell rm x'",
        "sqlite3 db '.shell rm x'",
        "make --eval='x:;rm y'",
        "make SHELL=./x all",
        "make -f -",
        "tmux new-session 'rm x'",
        "tmux send-keys rm Enter",
        "at now",
        "crontab f",
        "fc -s",
        "compgen -C 'rm x'",
        "npm exec --call 'rm x'",
        "uv run --with x y",
        "ssh -o ProxyCommand='rm x' host ls",
        "ssh -oLocalCommand=x host ls",
        "ssh -F f host ls",
        "ssh host",
        "ssh host \"$X\"",
        "scp -S ./x a b",
        "tar --to-command=\"$X\" -xf f",
        "let 'a[$(rm x)]=1'",
        "test -v 'a[$(rm x)]'",
        "declare -i 'x=a[`rm y`]'",
        "ls *(e:'rm x':)",
        "echo *(+rmx)",
        "parallel rm ::: x",
        "find . -exec python3 -c x {} +",
        "sudo perl -e x",
        "xargs awk '{system(\"rm x\")}'",
        "busybox awk 'BEGIN{system(\"rm x\")}'",
    ] {
        let analysis = analyse(command);
        assert!(analysis.is_unknowable && analysis.always.is_empty(), "{command}: {analysis:?}");
    }
}

#[test]
fn ordinary_uses_of_the_same_programs_raise_nothing() {
    for command in [
        "python script.py -c x",
        "python -m pytest -c x",
        "python3 --version",
        "node server.js -e prod",
        "perl script.pl",
        "ruby -v x.rb",
        "awk '{print $1}' f",
        "awk -F: '$3 > 100' f",
        "awk 'NR==2 || /x/' f",
        "awk -f prog.awk f",
        "sed 's/a/b/g' f",
        "sed -n '1,10p' f",
        "sed -i 's|a/b|c|' f",
        "sed -e 's/e/w/' -e '/x/d' f",
        "sed -n '/start/,/end/{p}' f",
        "sed '/^#/!d;s/ *$//' f",
        "sed 'y/abc/xyz/' f",
        "sed '$a done' f",
        "vim +10 f",
        "less f",
        "make -j8 test CC=clang",
        "npm run build -- --call-x",
        "npm test",
        "ssh -V x ls",
        "tmux ls",
        "tar xzf f.tgz",
        "tar --checkpoint-action=dot -xf f",
        "[ -f x ]",
        "declare -a x",
        "git log -c",
        "psql -c 'select 1'",
    ] {
        let analysis = analyse(command);
        assert!(!analysis.is_unknowable, "{command}: {analysis:?}");
    }
}

#[test]
fn a_denied_command_is_met_in_other_programs_arguments() {
    let rules = [rule("bash", "*", Action::Allow), rule("bash", "rm *", Action::Deny)];
    for command in [
        "tar --to-command='rm x' -xf f",
        "tar --to-command 'rm x' -xf f",
        "tar -xf f --checkpoint=1 --checkpoint-action=exec='rm x'",
        "tar -I 'rm x' -xf f",
        "tar -xI 'rm x' -f f",
        "tar --use-compress-program='rm x' -cf f d",
        "rsync -e 'rm x' a b",
        "rsync --rsh='rm x' a b",
        "ssh host rm x",
        "ssh -p 22 -i key user@host 'cd /tmp && rm x'",
        "ssh -tt -- host rm x",
        "man -P 'rm x' ls",
        "nix-shell --run 'rm x'",
        "env -S 'rm x'",
        "env --split-string='rm x'",
        "env -iS 'nice rm x'",
        "poetry run rm x",
        "uv run rm x",
        "bundle exec rm x",
        "mise exec -- rm x",
        "systemd-run --user rm x",
        "pkexec rm x",
        "setarch x86_64 rm x",
        "watch -n1 'rm x'",
        "emulate sh -c 'rm x'",
        "sudo tar --to-command='rm x' -xf f",
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
fn files_that_options_name_are_paths() {
    for (command, expected) in [
        ("curl -o /etc/x u", &["/etc/x"][..]),
        ("curl -sSLo /etc/x u", &["/etc/x"]),
        ("curl --output=/etc/x u", &["/etc/x"]),
        ("curl u", &[]),
        ("wget -O /etc/x u", &["/etc/x"]),
        ("wget -O- u", &[]),
        ("wget -P/etc u", &["/etc"]),
        ("sort -o ~/x y", &["~/x", "y"]),
        ("tar -xzf /a/f -C /etc", &["/a/f", "/etc"]),
        ("tar --directory=/etc -xf f", &["/etc", "f"]),
        ("unzip f -d /etc", &["f", "/etc"]),
        ("find / -delete", &["/"]),
        ("find / -name x", &["/"]),
        ("find . -fprintf /etc/x p", &["/etc/x"]),
        ("sed -i s/a/b/ /etc/x", &["/etc/x"]),
        ("sed -n 'w /etc/x' y", &["y", "/etc/x"]),
        ("sed 's/a/b/w /etc/x' y", &["y", "/etc/x"]),
        ("sed -f /a/s y", &["/a/s", "y"]),
        ("install -t /etc a", &["/etc", "a"]),
        ("mv -t/etc a", &["/etc", "a"]),
        ("truncate -s 0 /etc/x", &["0", "/etc/x"]),
        ("ln -sf /etc/x y", &["/etc/x", "y"]),
        ("patch -d /etc -i p", &["/etc", "p"]),
        ("dd if=a of=/etc/x", &["a", "/etc/x"]),
        ("openssl rand -out /etc/x 8", &["/etc/x"]),
        ("ssh host cat /etc/x", &[]),
        ("make -C /a all", &["/a"]),
    ] {
        let paths: Vec<String> = analyse(command).paths.into_iter().map(|path| path.text).collect();
        assert_eq!(paths, expected, "{command}");
    }
}

#[test]
fn always_takes_what_a_runner_runs() {
    for (command, expected) in [
        ("poetry run pytest -x", &["pytest *", "poetry run pytest *"][..]),
        ("ssh host uptime", &["uptime *", "ssh host uptime"]),
        ("tar -xzf f.tgz", &["tar *"]),
        ("sed -i s/a/b/ f", &["sed *"]),
        ("awk '{print $1}' f", &["awk *"]),
    ] {
        assert_eq!(analyse(command).always, expected, "{command}");
    }
}
