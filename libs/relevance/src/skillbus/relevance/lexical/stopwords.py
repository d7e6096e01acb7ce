"""Stop words: words that carry no information about which tool is meant.

`ENGLISH` is Lucene's default English list (33 words, org.apache.lucene.analysis.en.EnglishAnalyzer) plus the pronouns,
auxiliaries and request words with which people address an assistant ("could you please help me"). IDF alone does not
reduce the weight of the latter: they are frequent in queries and rare in the descriptions that IDF is computed on.
`CHINESE` is the same for Chinese: particles, pronouns, prepositions and request words.
"""

_LUCENE = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was
will with
"""
_ADDRESS = """
i me my we our us you your he she his her its from can could should would please what which how do does did has have had
been were am about some any also so want need help give let just all
"""
_APOSTROPHE_ENDS = "s t m re ve ll d"  # of "it's", "don't", "I'm", "you're", "I've", "we'll", "I'd"

_PARTICLES = """
的 了 和 是 在 有 就 也 都 而 及 与 着 或 把 被 给 吗 呢 吧 啊 为 对 上 从 到 以 并 不 没有
一个 这 那 这个 那个 一下
"""
_REQUEST = "我 我们 你 您 他 她 它 请 请问 帮 帮我 能 可以 什么 怎么 如何 想 要 想要 需要"

ENGLISH = frozenset(f"{_LUCENE} {_ADDRESS} {_APOSTROPHE_ENDS}".split())
CHINESE = frozenset(f"{_PARTICLES} {_REQUEST}".split())
