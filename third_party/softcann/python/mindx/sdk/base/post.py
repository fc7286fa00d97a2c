"""Post-processing by model is not served: the module is there so that programs that import it run as far as they do without."""


def __getattr__(name):
    raise AttributeError(f"mindx.sdk.base.post.{name}: post-processing is not served; Model.infer gives the outputs, to_host() "
                         "and numpy.array() their numbers")
