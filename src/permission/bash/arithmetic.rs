//! Where a line does arithmetic, and what its variables are given.

use tree_sitter::Node;

use super::{
    Source, Walk,
    command::value_of,
    tree::{each_below, spans},
    values::{Value, is_number},
    word,
};

impl Walk {
    /// Notes what an assignment gives to its variable.
    pub(super) fn value_of(&mut self, source: &Source<'_>, node: Node<'_>) {
        let Some((name, value)) = source.of(node).split_once('=') else { return };
        let name = name.split(['+', '[']).next().unwrap_or_default();
        self.values.add(name, value_of(value));
    }

    /// Notes what a declaration gives, and which arrays are no lists.
    pub(super) fn declared(&mut self, source: &Source<'_>, node: Node<'_>) {
        let mut cursor = node.walk();
        for (start, end) in spans(node.named_children(&mut cursor)) {
            if let Some((name, value)) = source.text.get(start..end).and_then(|it| it.split_once('=')) {
                self.values.add(name.trim_end_matches('+'), value_of(value));
            }
        }
        let mut words = source.of(node).split_whitespace().skip(1);
        if words.by_ref().take_while(|it| it.starts_with('-')).any(|it| it.contains('A')) {
            let names = source.of(node).split_whitespace().skip(1).filter(|it| !it.starts_with('-'));
            let names = names.map(|it| it.split('=').next().unwrap_or_default().to_owned());
            self.associative.extend(names);
        }
    }

    /// Notes what a loop gives to its variable.
    pub(super) fn looped(&mut self, source: &Source<'_>, node: Node<'_>) {
        let Some(variable) = node.child_by_field_name("variable").map(|name| source.of(name)) else { return };
        let mut cursor = node.walk();
        let values = spans(node.children_by_field_name("value", &mut cursor));
        let values: Vec<&str> =
            values.iter().filter_map(|(start, end)| source.text.get(*start..*end)).collect();
        if source.of(node).starts_with("select") {
            self.values.add("REPLY", Value::Outside);
        }
        if values.is_empty() {
            self.values.add(variable, Value::Text("\"$@\"".to_owned()));
        }
        for value in values {
            // Subscripts are numbers, unless they are texts.
            if let Some(array) = subscripts_of(value) {
                let is_text = self.associative.contains(array);
                self.values.add(variable, if is_text { Value::Outside } else { Value::Number });
                continue;
            }
            self.values.add(variable, value_of(value));
            let is_found = value.contains("$(") || value.contains('`') || is_glob(value);
            if is_found && !is_number(value) {
                self.values.add(variable, Value::Outside);
            }
        }
    }

    /// Notes the arithmetic that a node does, those of its children left to themselves.
    pub(super) fn arithmetic(&mut self, source: &Source<'_>, node: Node<'_>) {
        let text = source.of(node);
        match node.kind() {
            "arithmetic_expansion" => self.evaluate(source, node),
            "compound_statement" if text.starts_with("((") => self.evaluate(source, node),
            "c_style_for_statement" => {
                for field in ["initializer", "condition", "update"] {
                    let mut cursor = node.walk();
                    let parts: Vec<Node<'_>> = node.children_by_field_name(field, &mut cursor).collect();
                    parts.into_iter().for_each(|part| self.evaluate(source, part));
                }
            }
            "subscript" => {
                let array = node.child_by_field_name("name").map(|name| source.of(name)).unwrap_or_default();
                if let Some(index) =
                    node.child_by_field_name("index").filter(|_| !self.associative.contains(array))
                {
                    self.evaluate(source, index);
                }
            }
            "binary_expression" => {
                let mut cursor = node.walk();
                let compares = |child: Node<'_>| {
                    matches!(source.of(child), "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge")
                };
                let mut operands = node.named_children(&mut cursor);
                if text.contains("=~")
                    && let Some(left) = operands.next()
                {
                    self.values.add("BASH_REMATCH", value_of(source.of(left)));
                }
                drop(operands);
                if node.children(&mut cursor).any(compares) && !is_single_test(source, node) {
                    self.evaluate(source, node);
                }
            }
            "unary_expression" if text.starts_with("-v") => self.values.evaluate_names(text),
            "declaration_command" => {
                let mut options = text.split_whitespace().skip(1).take_while(|word| word.starts_with('-'));
                let is_evaluated = options.any(|option| option.contains(['i', 'n']));
                let mut cursor = node.walk();
                for child in node.named_children(&mut cursor) {
                    let written = source.of(child);
                    let (name, value) = written.split_once('=').unwrap_or((written, ""));
                    if is_evaluated && !written.starts_with('-') {
                        self.values.evaluate(name);
                        self.values.evaluate(value);
                    } else if !text.starts_with("export") {
                        self.values.evaluate_names(name);
                    }
                }
            }
            "unset_command" => self.values.evaluate_names(text),
            // `([x]=1 [y]=2)`.
            "array" => {
                let subscripts = text.split([' ', '\t', '\n', '(']).filter_map(|it| it.strip_prefix('['));
                subscripts.for_each(|it| self.values.evaluate(it.split(']').next().unwrap_or_default()));
            }
            "expansion" => self.expanded(text),
            _other => {}
        }
    }

    /// `${!x}`, `${x:offset:length}`.
    fn expanded(&mut self, text: &str) {
        let Some(inner) = text.strip_prefix("${").and_then(|it| it.strip_suffix('}')) else { return };
        if let Some(name) = inner.strip_prefix('!') {
            if !name.ends_with(['@', '*', ']']) {
                self.values.evaluate(name);
            }
            return;
        }
        let name_len = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inner.len());
        let Some(operation) = inner.get(name_len.max(1)..) else { return };
        let operation = match operation.strip_prefix('[').and_then(|it| it.split_once(']')) {
            Some((_, behind)) => behind,
            None => operation,
        };
        let name = &inner[..name_len];
        if let Some(default) = operation.trim_start_matches(':').strip_prefix('=') {
            self.values.add(name, value_of(default));
            self.assign(name, word::literal(default).as_deref());
        }
        if let Some(offset) = operation.strip_prefix(':').filter(|it| !it.starts_with(['-', '=', '?', '+'])) {
            self.values.evaluate(offset);
        }
    }

    /// The text of a node is arithmetic, what commands in it write as well.
    fn evaluate(&mut self, source: &Source<'_>, node: Node<'_>) {
        let mut text = source.of(node).to_owned();
        let mut commands = Vec::new();
        each_below(node, |below| {
            if below.kind() == "command_substitution" {
                commands.push(source.of(below));
            }
        });
        for command in commands {
            if super::values::is_open(command) {
                self.acc.is_unknowable = true;
            }
            text = text.replace(command, "0");
        }
        self.values.evaluate(&text);
    }
}

/// `[` compares numbers and evaluates nothing.
fn is_single_test(source: &Source<'_>, node: Node<'_>) -> bool {
    let mut test = Some(node);
    while let Some(it) = test.filter(|it| it.kind() != "test_command") {
        test = it.parent();
    }
    test.is_some_and(|test| !source.of(test).starts_with("[["))
}

/// The array whose subscripts `${!array[@]}` are.
fn subscripts_of(written: &str) -> Option<&str> {
    let inner = written.trim_matches('"').strip_prefix("${!")?;
    inner.strip_suffix("[@]}").or(inner.strip_suffix("[*]}"))
}

fn is_glob(written: &str) -> bool {
    !written.starts_with(['"', '\'']) && written.contains(['*', '?'])
}
