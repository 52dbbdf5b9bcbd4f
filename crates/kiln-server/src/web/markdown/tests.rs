//! What becomes of Markdown, kind and hostile.

#![expect(clippy::disallowed_methods, reason = "a test measures how long something takes")]

use std::time::{Duration, Instant};

use super::show;

#[track_caller]
fn check(text: &str, expect: &str) {
    assert_eq!(show(text).0.trim(), expect, "{text}");
}

#[test]
fn what_github_shows_is_shown() {
    check("# Hi *you*", "<h3>Hi <em>you</em></h3>");
    check("~~old~~ `code`", "<p><del>old</del> <code>code</code></p>");
    check("- [x] done\n- [ ] open", "<ul>\n<li>☑ done</li>\n<li>☐ open</li>\n</ul>");
    check(
        "```rust\nfn a<T>() {}\n```",
        "<pre tabindex=\"0\"><code>fn a&lt;T&gt;() {}\n</code></pre>",
    );
    check(
        "| a | b |\n|:-:|--:|\n| 1 | 2 |",
        "<table tabindex=\"0\"><thead><tr><th align=\"center\">a</th><th align=\"right\">b</th></tr></thead>\
         <tbody><tr><td align=\"center\">1</td><td align=\"right\">2</td></tr>\n</tbody></table>",
    );
    check(
        "[docs](https://example.com/a?b=1&c=2)",
        "<p><a href=\"https://example.com/a?b=1&amp;c=2\" rel=\"nofollow noopener noreferrer\">docs</a></p>",
    );
}

#[test]
fn what_actions_write_is_shown() {
    check(
        "<details open><summary>More</summary>\n\n**bold**\n\n</details>",
        "<details open=\"\"><summary>More</summary>\n<p><strong>bold</strong></p>\n</details>",
    );
    check(
        "<table><tr><th>a</th></tr><tr><td colspan=\"2\">1</td></tr></table>",
        "<table tabindex=\"0\"><tbody><tr><th>a</th></tr><tr><td colspan=\"2\">1</td></tr></tbody></table>",
    );
}

#[test]
fn pictures_are_links() {
    check(
        "![chart](https://example.com/a.png)",
        "<p><a href=\"https://example.com/a.png\" rel=\"nofollow noopener noreferrer\">chart</a></p>",
    );
    check(
        "[![badge](https://example.com/b.svg)](https://example.com)",
        "<p><a href=\"https://example.com\" rel=\"nofollow noopener noreferrer\">badge</a></p>",
    );
    // Whoever reads it tells nobody.
    check("<img src=\"https://example.com/track.gif\" alt=\"seen\"> text", "<p> text</p>");
}

/// Nothing of these is left but text.
#[test]
fn what_is_hostile_becomes_harmless() {
    let evil = [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "<svg onload=alert(1)><script>alert(1)</script></svg>",
        "<svg><style><img src=x onerror=alert(1)></style></svg>",
        "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)></style></mglyph></table></mtext></math>",
        "<a href=\"javascript:alert(1)\">x</a>",
        "<a href=\" \u{1}javascript:alert(1)\">x</a>",
        "<a href=\"java\nscript:alert(1)\">x</a>",
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt:alert(1))",
        "[x](data:text/html;base64,PHNjcmlwdD4=)",
        "[x](vbscript:msgbox)",
        "[x](file:///etc/passwd)",
        "<javascript:alert(1)>",
        "![x](javascript:alert(1))",
        "<img src=\"data:image/svg+xml;base64,AAAA\">",
        "<img src=\"data:text/html,x\">",
        "<iframe src=\"https://evil.example\"></iframe>",
        "<iframe srcdoc=\"<script>alert(1)</script>\"></iframe>",
        "<object data=x></object><embed src=x>",
        "<form action=/sign-out method=post><input name=a><button>go</button></form>",
        "<input autofocus onfocus=alert(1)>",
        "<base href=https://evil.example>",
        "<meta http-equiv=refresh content=0>",
        "<link rel=stylesheet href=https://evil.example/a.css>",
        "<style>body { display: none }</style>",
        "<div style=\"position:fixed;inset:0\" class=bar id=page onclick=alert(1)>x</div>",
        "<p data-part data-live=0>x</p>",
        "<details ontoggle=alert(1) open>x</details>",
        "<template><script>alert(1)</script></template>",
        "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
        "<!--><img src=x onerror=alert(1)>-->",
        "<![CDATA[<img src=x onerror=alert(1)>]]>",
        "<xmp><img src=x onerror=alert(1)></xmp>",
        "<textarea><img src=x onerror=alert(1)></textarea>",
        "<plaintext><img src=x onerror=alert(1)>",
        "```\"><script>alert(1)</script>\nx\n```",
        "``` \"onmouseover=alert(1)\nx\n```",
        "[a](https://example.com \"\\\"onclick=alert(1)\")",
        "| <script>alert(1)</script> |\n|---|\n| <img src=x onerror=alert(1)> |",
        "</section></main><script>alert(1)</script>",
    ];
    for text in evil {
        let shown = show(text).0;
        for tag in shown.split('<').skip(1) {
            let inside = tag.split('>').next().unwrap_or_default();
            let name = inside.trim_start_matches('/').split([' ', '/']).next().unwrap_or_default();
            assert!(super::TAGS.contains(&name), "<{name}> of {text} in {shown}");
            for word in
                [" on", " style", " class", " id", " data-", "javascript:", "vbscript:", "file:"]
            {
                let outside_quotes: String = inside.split('"').step_by(2).collect();
                let place = if word.ends_with(':') { inside } else { outside_quotes.as_str() };
                assert!(!place.to_ascii_lowercase().contains(word), "{word} of {text} in {shown}");
            }
        }
    }
}

#[test]
fn tags_that_are_left_open_end_with_the_text() {
    let shown = show("<details><div><table><tr><td>x").0;
    assert!(shown.ends_with("</table></div></details>"), "{shown}");
    assert_eq!(show("</div></section>").0.trim(), "");
}

/// A mebibyte of whatever is hardest to read takes no longer than it should.
#[test]
fn nothing_takes_long() {
    let most = 1 << 20;
    let hard = [
        ">",
        "- ",
        "1. ",
        "*",
        "_",
        "~~",
        "`",
        "[",
        "![",
        "](",
        "<",
        "<div>",
        "<p><div>",
        "<b><div></b>",
        "<a><table>",
        "<b>",
        "&amp;",
        "| ",
        "|-",
        "\\",
        "*a_ ",
        "[a](",
        "[a]: b\n",
        "<!--",
        "<?",
        "\r",
        "\0",
        "- [ ] ",
        "> - ",
        "a\n=\n",
        "# ",
        "    ",
        "```\n",
        "<table><tr><td>",
        "<details><summary>",
    ];
    for piece in hard {
        let start = Instant::now();
        let shown = show(&piece.repeat(most / piece.len()));
        let took = start.elapsed();
        assert!(took < Duration::from_secs(20), "{piece:?} took {took:?}");
        assert!(shown.0.len() < 32 << 20, "{piece:?} became {} bytes", shown.0.len());
    }
    // A row with one cell is filled up to the width of the table.
    let wide =
        format!("{}\n{}\n{}", "|a".repeat(10_000), "|-".repeat(10_000), "|\n".repeat(400_000));
    let start = Instant::now();
    assert!(show(&wide).0.len() < 64 << 20);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

/// Pieces in any order: nothing breaks, and nothing but known tags comes out.
#[test]
fn any_text_can_be_shown() {
    let pieces = [
        "<",
        ">",
        "</",
        "div",
        "<script",
        "<a href=",
        "\"",
        "'",
        "javascript:",
        "\n",
        "\n\n",
        "*",
        "[",
        "](",
        ")",
        "`",
        "|",
        "-",
        "#",
        "&lt;",
        "<!--",
        "-->",
        "ä",
        "\u{0}",
        "<svg>",
        "<table>",
        "<td>",
        "</p>",
        " ",
    ];
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..2_000 {
        let mut text = String::new();
        for _ in 0..40 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            text.push_str(pieces[usize::try_from(seed % 29).unwrap_or_default()]);
        }
        let shown = show(&text).0;
        assert!(!shown.contains("<script") && !shown.contains("<svg"), "{text} became {shown}");
    }
}
