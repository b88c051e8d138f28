"""The OpenAI-compatible HTTP server.

Knows HTTP and the public Python API; knows nothing of backends. A request goes down this list, and its answer up again::

    run          a socket, and an end in good order         startup, check, introduction   before and at the beginning
    protection   limits, keys, origins                      error_answers, openapi         what fails; what is documented
    app, routes  one file for each group of paths           schemas                        what goes in and out, by path
    generation   from a request to the pieces of its answer formats                        the words of other APIs
    sessions     conversations that are kept                media                          images and sounds in messages
    models       which are in memory                        vector_work                    texts to vectors, in turns
    observe      metrics, logs, traces                      overview                       what a server says of itself
    page         the chat page

``settings`` says each option once, and ``settings_sources`` where they come from. ``services`` is what the routes of one
server share. ``errors`` are what clients are told, ``invalid_requests`` those that say which field is wrong.
``json_bodies`` reads requests, ``write_now`` writes parts of streams: both are there for speed.

Imports go down: ``run``, ``app``, ``routes``, then ``generation`` and ``overview``, then ``services``, and below it what
knows no request: ``formats``, ``sessions``, ``observe``, ``models``, ``media``, ``schemas``, ``settings``, ``errors``.
"""
