"""Holds our request bodies (fixtures/providers/*/*/request.json) to the types of the vendors' own SDKs."""

import base64
import json
import pathlib
import sys
import typing

import typing_extensions
from pydantic import TypeAdapter, ValidationError

FIXTURES = pathlib.Path(__file__).resolve().parents[3] / "fixtures" / "providers"


def openai_chat(body):
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

    # Fields that servers in OpenAI's form have, and OpenAI itself has not.
    for message in body["messages"]:
        for field in ["reasoning_content", "reasoning", "reasoning_details"]:
            message.pop(field, None)
    check(CompletionCreateParamsStreaming, body, also={"top_k"})


def openai_responses(body):
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

    # The SDK wants ids on thoughts and answers; without storage at the provider there are none.
    for item in body["input"]:
        if item.get("type") == "reasoning":
            item["id"] = ""
        if item.get("role") == "assistant":
            item.update(type="message", id="", status="completed")
            for part in item["content"]:
                part["annotations"] = []
    # A field of a user's own.
    check(ResponseCreateParamsStreaming, body, also={"seed"})


def anthropic(body):
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

    # The newest models, which the types are of, take none.
    check(MessageCreateParamsStreaming, body, also={"temperature"})


def google(body):
    from google.genai import types

    for content in body["contents"]:
        types.Content.model_validate(content)
    for tool in body.get("tools", []):
        types.Tool.model_validate(tool)
    if "systemInstruction" in body:
        types.Content.model_validate(body["systemInstruction"])
    types.GenerationConfig.model_validate(body.get("generationConfig", {}))
    known = {"contents", "tools", "toolConfig", "systemInstruction", "generationConfig", "safetySettings"}
    unknown = body.keys() - known
    assert not unknown, f"unknown fields {unknown}"


def bedrock(body):
    import botocore.session
    from botocore.validate import ParamValidator

    def decode(value):
        if isinstance(value, dict):
            return {key: base64.b64decode(it) if key in ("bytes", "redactedContent") else decode(it) for key, it in value.items()}
        return [decode(it) for it in value] if isinstance(value, list) else value

    model = botocore.session.get_session().get_service_model("bedrock-runtime")
    shape = model.operation_model("ConverseStream").input_shape
    report = ParamValidator().validate({"modelId": "m", **decode(body)}, shape)
    assert not report.has_errors(), report.generate_report()


def check(kind, body, also=frozenset()):
    """Validates a body against a typed dictionary, and its keys against those that exist."""
    hints = typing_extensions.get_type_hints(kind, include_extras=True)
    unknown = body.keys() - hints.keys() - also
    assert not unknown, f"unknown fields {unknown}"
    for key, value in body.items():
        if key in hints:
            hint = hints[key]
            while typing.get_origin(hint) in (typing_extensions.Required, typing_extensions.NotRequired):
                hint = typing.get_args(hint)[0]
            TypeAdapter(hint).validate_python(value)


def main():
    failed = 0
    n_checked = 0
    for judge in [openai_chat, openai_responses, anthropic, google, bedrock]:
        for file in sorted((FIXTURES / judge.__name__).glob("*/request.json")):
            try:
                judge(json.loads(file.read_text()))
                n_checked += 1
            except (AssertionError, ValidationError, ValueError) as error:
                failed += 1
                print(f"{file.relative_to(FIXTURES)}: {str(error)[:1000]}", file=sys.stderr)
    print(f"request bodies: {n_checked} fit the SDKs' types, {failed} do not")
    sys.exit(1 if failed or not n_checked else 0)


main()
