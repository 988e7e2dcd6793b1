//! Turns a prompt's content blocks into the engine's input. Pure (facts: OpenCode §11.5).

use std::path::PathBuf;

use reqwest::Url;
use windlass_base::mime;
use windlass_engine::PromptPart;
use windlass_protocol::opencode::part::FilePart;
use windlass_protocol_acp::schema::{Annotations, ContentBlock, EmbeddedResourceResource, Role};

/// Returns the parts of a prompt; blocks that cannot be used are named in the second list.
pub fn prompt_parts(blocks: Vec<ContentBlock>) -> (Vec<PromptPart>, Vec<String>) {
    let mut parts = Vec::new();
    let mut unused = Vec::new();
    for block in blocks {
        match block {
            ContentBlock::Text(text) => {
                let (is_synthetic, is_ignored) = audience(text.annotations.as_ref());
                parts.push(PromptPart::Text { text: text.text, is_synthetic, is_ignored });
            }
            ContentBlock::Image(image) => {
                let url = match (image.data.is_empty(), image.uri) {
                    (true, Some(uri)) => uri,
                    (true, None) => {
                        unused.push("an image with neither data nor uri is ignored".to_owned());
                        continue;
                    }
                    (false, _) => format!("data:{};base64,{}", image.mime_type, image.data),
                };
                parts.push(PromptPart::File(FilePart {
                    mime: image.mime_type,
                    filename: None,
                    url,
                    source: None,
                }));
            }
            ContentBlock::ResourceLink(link) => {
                parts.push(resource_link(link.uri, link.name, link.mime_type))
            }
            ContentBlock::Resource(resource) => match resource.resource {
                EmbeddedResourceResource::TextResourceContents(text) => {
                    parts.push(PromptPart::Document {
                        place: place(&text.uri),
                        path: local_path(&text.uri),
                        text: text.text,
                    });
                }
                EmbeddedResourceResource::BlobResourceContents(blob) => {
                    let mime = blob.mime_type.unwrap_or_else(|| {
                        media_type(&blob.uri).unwrap_or("application/octet-stream").to_owned()
                    });
                    let url = format!("data:{mime};base64,{}", blob.blob);
                    let filename = file_name(&blob.uri);
                    parts.push(PromptPart::File(FilePart { mime, filename, url, source: None }));
                }
                _ => unused.push("a resource of an unknown kind is ignored".to_owned()),
            },
            _ => unused.push("a content block of an unknown kind is ignored".to_owned()),
        }
    }
    (parts, unused)
}

/// Returns the words that the user typed, without texts of files and without texts for one side alone.
pub fn words(blocks: &[ContentBlock]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        ContentBlock::Text(text) if audience(text.annotations.as_ref()) == (false, false) => {
            Some(text.text.as_str())
        }
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns true first for text of the assistant alone, which is synthetic, and second for text of the user alone, which
/// is not sent to the model.
fn audience(annotations: Option<&Annotations>) -> (bool, bool) {
    match annotations.and_then(|it| it.audience.as_deref()) {
        Some([Role::Assistant]) => (true, false),
        Some([Role::User]) => (false, true),
        Some(_) | None => (false, false),
    }
}

fn plain(text: String) -> PromptPart {
    PromptPart::Text { text, is_synthetic: false, is_ignored: false }
}

fn resource_link(uri: String, name: String, mime: Option<String>) -> PromptPart {
    // Zed's own scheme names a file by the `path` of its query.
    let local = match uri.strip_prefix("zed://") {
        Some(_) => zed_path(&uri).map(|path| format!("file://{path}")),
        None => uri.starts_with("file://").then(|| uri.clone()),
    };
    match local {
        Some(url) => {
            let mime = mime.unwrap_or_else(|| media_type(&url).unwrap_or("text/plain").to_owned());
            PromptPart::File(FilePart { mime, filename: Some(name), url, source: None })
        }
        None => plain(uri),
    }
}

fn zed_path(uri: &str) -> Option<String> {
    let uri = Url::parse(uri).ok()?;
    uri.query_pairs().find(|(name, _)| name == "path").map(|(_, path)| path.into_owned())
}

/// Returns the type of an image or document, by its name's ending.
fn media_type(url: &str) -> Option<&'static str> {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    mime::of_path(path)
}

/// Returns the file that a `file://` URI names as a whole; a fragment means a part of it.
fn local_path(uri: &str) -> Option<PathBuf> {
    let url = Url::parse(uri).ok().filter(|url| url.scheme() == "file" && url.fragment().is_none())?;
    url.to_file_path().ok()
}

/// Returns `path` or `path:line` of a `file://` URI with an `#L<n>` fragment; any other URI as it is.
fn place(uri: &str) -> String {
    let file = Url::parse(uri).ok().filter(|url| url.scheme() == "file");
    let Some((url, path)) = file.and_then(|url| Some((url.clone(), url.to_file_path().ok()?))) else {
        return uri.to_owned();
    };
    let line = url.fragment().and_then(|fragment| fragment.strip_prefix('L')).unwrap_or_default();
    let line: String = line.chars().take_while(char::is_ascii_digit).collect();
    if line.is_empty() { path.display().to_string() } else { format!("{}:{line}", path.display()) }
}

fn file_name(uri: &str) -> Option<String> {
    let name = uri.split(['?', '#']).next()?.rsplit('/').next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests;
