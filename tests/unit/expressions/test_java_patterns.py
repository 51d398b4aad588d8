"""Java's patterns: what each matches in one text, with Spark's answers, and what is refused."""

from __future__ import annotations

import pytest

from stretto.expressions.java_regex import (
    BadPattern,
    BadReplacement,
    UnsupportedPattern,
    java_pattern,
    joined,
    parse_replacement,
)

TEXT = "Ab aab\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"
#: regexp_replace(TEXT, pattern, '<$0>') in Spark.
REPLACED = [
    ("a$", "Ab aab\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("\\.b", "Ab aab\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("[a&&b]", "Ab aab\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("(?i)é", "Ab aab\r\nbc É<é>B Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("(?iu)É", "Ab aab\r\nbc <É><é>B Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("(?i)ß", "Ab aab\r\nbc ÉéB Σ ,;[.] 😀_1<ß> k\u212a aB\n"),
    ("(?iu)ß", "Ab aab\r\nbc ÉéB Σ ,;[.] 😀_1<ß> k\u212a aB\n"),
    ("(?iu)i", "Ab aab\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("(?iu)[j-l]", "Ab aab\r\nbc ÉéB Σ ,;[.] 😀_1ß <k><\u212a> aB\n"),
    ("(?i)[a-c]", "<A><b> <a><a><b>\r\n<b><c> Éé<B> Σ ,;[.] 😀_1ß k\u212a <a><B>\n"),
    ("\\b", "<>Ab<> <>aab<>\r\n<>bc<> <>ÉéB<> <>Σ<> ,;[.] 😀<>_1ß<> <>k\u212a<> <>aB<>\n"),
    ("\\bb\\b", "Ab aab\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("\\B.", "A<b> a<a><b>\r\nb<c> É<é><B> Σ <,><;><[><.><]>< ><😀>_<1><ß> k<\u212a> a<B>\n"),
    ("\\h", "Ab< >aab\r\nbc< >ÉéB< >Σ< >,;[.]< >😀_1ß< >k\u212a< >aB\n"),
    ("\\H+", "<Ab> <aab\r\nbc> <ÉéB> <Σ> <,;[.]> <😀_1ß> <k\u212a> <aB\n>"),
    ("\\v", "Ab aab<\r><\n>bc ÉéB Σ ,;[.] 😀_1ß k\u212a aB<\n>"),
    ("\\V+", "<Ab aab>\r\n<bc ÉéB Σ ,;[.] 😀_1ß k\u212a aB>\n"),
    ("\\R", "Ab aab<\r\n>bc ÉéB Σ ,;[.] 😀_1ß k\u212a aB<\n>"),
    ("\\R+", "Ab aab<\r\n>bc ÉéB Σ ,;[.] 😀_1ß k\u212a aB<\n>"),
    ("a++b", "Ab <aab>\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("a?+a", "Ab <aa>b\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("(?>a|ab)c?", "Ab <a><a>b\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a <a>B\n"),
    ("(?<=a)b", "Ab aa<b>\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("(?<![ab])b", "A<b> aab\r\n<b>c ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("(?<=a|bc)c", "Ab aab\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("(?=.*b)a", "Ab <a><a>b\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("(?!ab)a.", "Ab <aa>b\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a <aB>\n"),
    ("(a)(b)?\\2", "Ab aab\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("(.)\\1", "Ab <aa>b\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("(?<n>a)\\k<n>", "Ab <aa>b\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("(?i)(a)\\1", "Ab <aa>b\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("\\p{L}", "<A><b> <a><a><b>\r\n<b><c> <É><é><B> <Σ> ,;[.] 😀_1<ß> <k><\u212a> <a><B>\n"),
    ("\\p{Lu}+", "<A>b aab\r\nbc <É>é<B> <Σ> ,;[.] 😀_1ß k<\u212a> a<B>\n"),
    ("\\pN", "Ab aab\r\nbc ÉéB Σ ,;[.] 😀_<1>ß k\u212a aB\n"),
    ("\\p{IsLl}", "A<b> <a><a><b>\r\n<b><c> É<é>B Σ ,;[.] 😀_1<ß> <k>\u212a <a>B\n"),
    ("\\p{InGreek}", "Ab aab\r\nbc ÉéB <Σ> ,;[.] 😀_1ß k\u212a aB\n"),
    ("\\p{gc=Lu}", "<A>b aab\r\nbc <É>é<B> <Σ> ,;[.] 😀_1ß k<\u212a> a<B>\n"),
    ("\\p{Alpha}+", "<Ab> <aab>\r\n<bc> Éé<B> Σ ,;[.] 😀_1ß <k>\u212a <aB>\n"),
    ("\\p{Space}", "Ab< >aab<\r><\n>bc< >ÉéB< >Σ< >,;[.]< >😀_1ß< >k\u212a< >aB<\n>"),
    ("(?i)\\p{Lower}", "<A><b> <a><a><b>\r\n<b><c> Éé<B> Σ ,;[.] 😀_1ß <k>\u212a <a><B>\n"),
    ("(?i)\\p{Lu}", "<A><b> <a><a><b>\r\n<b><c> <É><é><B> <Σ> ,;[.] 😀_1<ß> <k><\u212a> <a><B>\n"),
    ("\\Q.[\\E", "Ab aab\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("[\\Q,;\\E]", "Ab aab\r\nbc ÉéB Σ <,><;>[.] 😀_1ß k\u212a aB\n"),
    ("\\0141", "Ab <a><a>b\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a <a>B\n"),
    ("\\x61", "Ab <a><a>b\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a <a>B\n"),
    ("\\x{1F600}", "Ab aab\r\nbc ÉéB Σ ,;[.] <😀>_1ß k\u212a aB\n"),
    ("\\u0061", "Ab <a><a>b\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a <a>B\n"),
    ("\\ud83d\\ude00", "Ab aab\r\nbc ÉéB Σ ,;[.] <😀>_1ß k\u212a aB\n"),
    ("\\cM", "Ab aab<\r>\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("\\t", "Ab aab\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("\\e?\\a?b", "A<b> aa<b>\r\n<b>c ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("(?x) a\\ b #c", "Ab aab\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("(?x)[a b]", "A<b> <a><a><b>\r\n<b>c ÉéB Σ ,;[.] 😀_1ß k\u212a <a>B\n"),
    ("(?m)^", "<>Ab aab\r\n<>bc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("(?m)$", "Ab aab<>\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB<>\n<>"),
    ("(?m)^.", "<A>b aab\r\n<b>c ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("(?d).$", "Ab aab\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a a<B>\n"),
    ("(?dm)$", "Ab aab\r<>\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB<>\n<>"),
    ("(?s).+", "<Ab aab\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n>"),
    (".+", "<Ab aab>\r\n<bc ÉéB Σ ,;[.] 😀_1ß k\u212a aB>\n"),
    ("\\A.", "<A>b aab\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    (".\\z", "Ab aab\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    (".\\Z", "Ab aab\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a a<B>\n"),
    ("[a-z&&[aeiou]]", "Ab <a><a>b\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a <a>B\n"),
    ("[a-z&&[^b]c]", "Ab <a><a>b\r\nb<c> ÉéB Σ ,;[.] 😀_1ß <k>\u212a <a>B\n"),
    ("[[ab]c]", "A<b> <a><a><b>\r\n<b><c> ÉéB Σ ,;[.] 😀_1ß k\u212a <a>B\n"),
    ("[]a]", "Ab <a><a>b\r\nbc ÉéB Σ ,;[.<]> 😀_1ß k\u212a <a>B\n"),
    ("[a-]", "Ab <a><a>b\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a <a>B\n"),
    ("[a^]", "Ab <a><a>b\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a <a>B\n"),
    ("[&a]", "Ab <a><a>b\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a <a>B\n"),
    ("[\\w&&[^a]]", "<A><b> aa<b>\r\n<b><c> Éé<B> Σ ,;[.] 😀<_><1>ß <k>\u212a a<B>\n"),
    ("a{2}", "Ab <aa>b\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("a{1,}", "Ab <aa>b\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a <a>B\n"),
    ("a{0,1}?b", "A<b> a<ab>\r\n<b>c ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("(?:a|b)+", "A<b> <aab>\r\n<b>c ÉéB Σ ,;[.] 😀_1ß k\u212a <a>B\n"),
    ("(a|b)*c", "Ab aab\r\n<bc> ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("(a*)+b", "A<b> <aab>\r\n<b>c ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("(?i:A)B", "Ab aab\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a <aB>\n"),
    ("a(?i)B(?-i)C", "Ab aab\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("((?i)a|b)C", "Ab aab\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("[^ ]+", "<Ab> <aab\r\nbc> <ÉéB> <Σ> <,;[.]> <😀_1ß> <k\u212a> <aB\n>"),
    ("\\D\\S\\W", "<Ab >a<ab\r>\n<bc >É<éB >Σ< ,;><[.]> 😀<_1ß>< k\u212a> <aB\n>"),
    ("[\\s\\S]b", "<Ab> a<ab>\r<\nb>c ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("]", "Ab aab\r\nbc ÉéB Σ ,;[.<]> 😀_1ß k\u212a aB\n"),
    ("}", "Ab aab\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("a\\{", "Ab aab\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("\\-", "Ab aab\r\nbc ÉéB Σ ,;[.] 😀_1ß k\u212a aB\n"),
    ("\\é", "Ab aab\r\nbc É<é>B Σ ,;[.] 😀_1ß k\u212a aB\n"),
]


@pytest.mark.parametrize(("pattern", "replaced"), REPLACED)
def test_matches_are_javas(pattern: str, replaced: str) -> None:
    java = java_pattern(pattern)
    assert java.replaced(TEXT, lambda found: f"<{found[0]}>") == replaced
    assert (java.search(TEXT) is not None) == (replaced != TEXT)


@pytest.mark.parametrize(
    "pattern", ["(", ")", "[a", "*", "a**", "a{", "a{2,1}", "\\y", "[b-a]", "(?z)", "a\\", "\\k<n>", "(?<1>a)", "\\x4"]
)
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        java_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("\\Ga", "\\G"),
        ("\\X", "\\X"),
        ("\\b{g}", "\\b{g}"),
        ("(?U)a", "(?U)"),
        ("\\p{IsHan}", "\\p{IsHan}"),
        ("\\2(a)(b)", "\\2"),
        ("(?iu)(a)\\1", "(?iu)"),
        ("(?<=a+)b", "look-behind"),
        ("^*a", "a repetition of a place"),
        ("(a)?+b|c", "a group that captures"),
        ("\\ud83d", "surrogate"),
    ],
)
def test_what_has_no_exact_translation_is_refused_by_name(pattern: str, named: str) -> None:
    with pytest.raises(UnsupportedPattern) as caught:
        java_pattern(pattern)
    assert named in str(caught.value)


def test_re2_is_used_only_where_it_finds_the_same() -> None:
    assert java_pattern("a.*b$").re2_search is not None
    assert java_pattern("[^a]$").re2_search is None  # $ does not match between a return and a line feed.
    assert java_pattern("(?<=a)b").re2_search is None
    word = java_pattern("\\bfoo").re2_search
    assert word is not None
    assert word.ascii_only
    assert java_pattern("a+").re2_matches is not None
    assert java_pattern("a*").re2_matches is None  # Empty matches come in another number.
    assert java_pattern("(?:a*)+b").re2_matches is None


def test_an_empty_match_between_the_halves_of_a_character() -> None:
    """Java steps by UTF-16 units; Spark writes a half as a question mark."""
    assert java_pattern("").replaced("a\U0001f600b", lambda found: "-") == "-a-?-?-b-"
    assert java_pattern("(?<!a)").replaced("a\U0001f600b", lambda found: "<>") == "<>a?<>?<>b<>"
    assert joined("\ud83d\ude00") == "\U0001f600"


@pytest.mark.parametrize(
    ("replacement", "filled"),
    [("$2$1", "ba"), ("$0!", "ab!"), ("\\$1\\\\", "$1\\"), ("$10", "a0"), ("${n}", "b"), ("", ""), ("$3", "")],
)
def test_replacements_are_javas(replacement: str, filled: str) -> None:
    java = java_pattern("(a)(?<n>b)(c)?")
    found = java.search("ab")
    assert found is not None
    assert parse_replacement(replacement, java.groups, java.names).fill(found) == filled


@pytest.mark.parametrize("replacement", ["$", "$x", "$4", "${m}", "a\\"])
def test_a_bad_replacement_is_refused(replacement: str) -> None:
    java = java_pattern("(a)(?<n>b)(c)?")
    with pytest.raises(BadReplacement):
        parse_replacement(replacement, java.groups, java.names)
