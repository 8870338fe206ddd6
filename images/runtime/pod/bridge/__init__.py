"""The bridge: an Anthropic endpoint in front of a vLLM engine. Everything here but the web layer is pure: no I/O, no clock of
its own, and the standard library (msgspec where it is installed).

Settings
    settings.Settings             from_manifest(manifest), from_arguments(words), add_arguments(parser) + from_options(namespace)
    models.Names(settings.models) resolve(requested) -> Match(model, upstream_name); page(query, anthropic=...) and
                                  entry(name, anthropic=...) -> a body for /v1/models and /v1/models/{id} (raises ApiError 404)

A request in translate mode
    translate.parsed_body(bytes) -> value          raises errors.InvalidRequestError for what is no JSON
    translate.chat_request(body, settings, names) -> Translation(body, turn, model, notes), raises errors.InvalidRequestError
        .body      for POST {model.upstream}/v1/chat/completions
        .turn      turn.Turn: what the answer has to know of the request (model echoed, limits, estimate of input tokens)
        .notes     what was left out or changed, for the trace
    translate.without_budget(chat_body)            after errors.refuses_budget(status, text): the same without a thinking budget
    translate.with_max_tokens(chat_body, tokens)   after errors.overflow_of(text).lowered(): the same with a shorter answer. An
                                                   overflow that is not `exact` needs .counted(tokens of /tokenize) first
    translate.completion_message(data, turn, message_id) -> (message, notes): a non-streaming answer; raises errors.ApiError

A stream in translate mode
    events.MessageStream(turn, message_id, usage_s=0.5, clock=time.monotonic)
        feed(bytes) -> list[bytes]    frames for the client; upstream bytes may be cut anywhere
        flush(why) -> list[bytes]     upstream ended, cleanly or not; `why` where an error ended it
        begin() -> list[bytes]        message_start now, with the estimate (when prefill outlasts the ping interval)
        beat() -> list[bytes]         nothing was sent for ping_s: a ping, and an empty delta of the open block
        fail(ApiError) -> list[bytes] the error event that ends the stream
        started, done                 whether a frame was made; whether nothing may follow (message_stop or error was given)
        failure                       the ApiError that ended it, or None; while not `started` before it, answer its status instead
        usage, stop_reason, notes     for metrics and the trace

native and keepalive modes
    native.native_request(body, settings, names) -> Translation for POST {upstream}/v1/messages
    native.NativeStream(turn, message_id, ...)     the same interface as MessageStream
    native.mended_message(data, turn, message_id) -> (message, notes)
    keepalive.PingStream(anthropic=True)           the same interface: bytes untouched, pings (comments where not anthropic)
                                                   between frames only

count_tokens
    count.tokenize_request(body, settings, names) -> Translation for POST {upstream}/tokenize (body without max_tokens is fine)
    count.count_in(response_bytes) -> int;  count.estimate(body) -> int, which errs upward
    size.wants_count(turn, settings)               the prompt may be over the window: count it before the engine gets it
    size.too_long(turn, settings, counted=None)    the ApiError for a prompt that is, or None

Errors
    errors.ApiError               .status .kind .message; body(request_id), headers(), frame(request_id)
    errors.from_upstream(status, headers, body, prompt=None) and the named ones: unreachable, saturated, silent, empty, cut_off, too_large
    errors.redacted(text, secrets)
"""
