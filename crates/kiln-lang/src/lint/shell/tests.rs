//! Tests of the commands that a script is taken apart into.

use super::*;

/// Each command as its words, `|` or `or` behind it, and `?` before it in a condition.
fn read(text: &str) -> Vec<String> {
    commands(text, 0..text.len())
        .iter()
        .map(|command| {
            let words: Vec<&str> =
                command.words.iter().map(|word| &text[word.range.clone()]).collect();
            let condition = if command.in_condition { "? " } else { "" };
            let join = match command.joined_by {
                Join::Pipe => " |",
                Join::Or => " or",
                Join::Other => "",
            };
            for inner in command.words.iter().flat_map(|word| &word.substitutions) {
                if text.len() < 100 {
                    read(&text[inner.clone()]);
                }
            }
            format!("{condition}{}{join}", words.join(" "))
        })
        .collect()
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    assert_eq!(read(text), expected, "{text}");
}

#[test]
fn commands_end_at_operators_and_lines() {
    check("a b; c && d || e & f", &["a b", "c", "d or", "e", "f"]);
    check("a |\n b |& c\nd", &["a |", "b |", "c", "d"]);
    check("a \\\n  b\nc", &["a b", "c"]);
    check("(a; b) | c", &["a", "b", " |", "c"]);
    check("a 2>&1 | tee x &>y >|z", &["a 2>&1 |", "tee x &>y >|z"]);
    check("", &[]);
}

#[test]
fn quotes_and_comments_hide_operators() {
    check("a 'b | c' \"d | $(e | f)\" `g | h` # i | j", &["a 'b | c' \"d | $(e | f)\" `g | h`"]);
    check("a \\| b $'c\\'|' ${d:-|}", &["a \\| b $'c\\'|' ${d:-|}"]);
    check("a#b | c", &["a#b |", "c"]);
    check(
        "a '${{ x == 'y' || z }}' \"${{ '\"|' }}\"",
        &["a '${{ x == 'y' || z }}' \"${{ '\"|' }}\""],
    );
    check("x=$((1 | 2)) ((y | 3))", &["x=$((1 | 2))", "y |", "3"]);
    check("((y | 3)) && [[ $a =~ b|c ]] && d <(e | f)", &["[[ $a =~ b|c ]]", "d <(e | f)"]);
}

#[test]
fn here_documents_are_passed_over() {
    check("cat <<EOF | b\nx | y\nEOF\nc", &["cat <<EOF |", "b", "c"]);
    check("cat > f <<-'E O'\n\tx | y\n\tE O\nc", &["cat > f <<-'E O'", "c"]);
    check("cat << \"END\"\na | b\nEND\nc", &["cat << \"END\"", "c"]);
    check("read x <<< \"$a\" | b", &["read x <<< \"$a\" |", "b"]);
    check("cat <<EOF\nnever ends | x", &["cat <<EOF"]);
}

#[test]
fn patterns_of_case_are_no_pipelines() {
    check(
        "case $x in\n  a | b) c | d ;;\n  'e'|f) g ;;\n  (*) ;;\nesac | h",
        &["case $x in", "c |", "d", "g", "esac |", "h"],
    );
}

#[test]
fn conditions_are_marked() {
    check("if a | b; then c | d; fi", &["? a |", "? b", "c |", "d", "fi"]);
    check("while ! a; do b; done\nc", &["? a", "b", "done", "c"]);
}

#[test]
fn substitutions_are_kept() {
    let text = "a=$(b \"$(c)\") \"`d`\"";
    let commands = commands(text, 0..text.len());
    let inner: Vec<&str> = commands[0]
        .words
        .iter()
        .flat_map(|word| &word.substitutions)
        .map(|range| &text[range.clone()])
        .collect();
    assert_eq!(inner, ["b \"$(c)\"", "d"]);
}

#[test]
fn broken_and_deep_text_ends() {
    for text in
        ["'", "\"", "`", "$(", "${", "${{", "$((", "case x in", "a <<", "\\", "[[", "(", "x <("]
    {
        read(text);
    }
    for text in ["$(é", "`é", "\"$(é", "a \\é", "é <<é", "case é in é", "$(é)é | é"] {
        read(text);
    }
    read(&"$(".repeat(10_000));
    read(&"\"$(".repeat(10_000));
    read(&"`".repeat(10_001));
    read(&"case x in ".repeat(1_000));
}

proptest::proptest! {
    /// Ranges are in order and never cut a character, or slicing in `read` would panic.
    #[test]
    fn any_text_is_taken_apart(text in "[ab \\n|&;<>(){}$`'\"\\\\#=!é]{0,60}") {
        read(&text);
        read(&format!("case {text} in {text}"));
    }
}
