"""The tiny model of these tests is one that sentence-transformers can load, score with and train."""


def test_the_tiny_model_tells_pairs_apart_and_repeats(cross_encoder, tiny_folder):
    from tests.wings.rerank import tiny

    pairs = [("what is the capital", "paris is a city"), ("what is the capital", "the cat and the dog")]
    scores = cross_encoder.predict(pairs)
    assert abs(scores[0] - scores[1]) > 1e-4
    assert (tiny.cross_encoder(tiny_folder).predict(pairs) == scores).all()


def test_texts_of_other_words_are_spelt_not_unknown(cross_encoder):
    words = cross_encoder.tokenizer
    assert words.unk_token_id not in words("xylophones are strange")["input_ids"]
