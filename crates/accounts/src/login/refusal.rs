//! The meaning of OAuth errors: which end a login, which are the administrator's to mend, and which pass.

use openidconnect::{RequestTokenError, StandardErrorResponse, core::CoreErrorResponseType};

use super::{
    error::{LoginError, described, shown},
    http::HttpError,
};

/// Says why a request for tokens failed.
pub(super) fn of_token_request(
    provider: &str,
    error: RequestTokenError<HttpError, StandardErrorResponse<CoreErrorResponseType>>,
) -> LoginError {
    let reason = match error {
        RequestTokenError::Request(error) => return error.at(provider),
        RequestTokenError::ServerResponse(answer) => {
            let code = answer.error().as_ref();
            return of_token_error(provider, code, answer.error_description().map(String::as_str));
        }
        // The answer itself may hold tokens.
        RequestTokenError::Parse(error, _) => {
            format!(
                "its answer to a request for tokens cannot be read at \"{}\"",
                shown(&error.path().to_string())
            )
        }
        RequestTokenError::Other(reason) => shown(&reason),
    };
    LoginError::Answer { provider: provider.to_owned(), reason }
}

/// Sorts an error of a token endpoint (RFC 6749, section 5.2, and those of OpenID Connect and GitHub).
pub(super) fn of_token_error(provider: &str, code: &str, description: Option<&str>) -> LoginError {
    let reason = described(code, description);
    let provider = provider.to_owned();
    match code {
        "invalid_grant"
        | "bad_verification_code"
        | "bad_refresh_token"
        | "unverified_user_email"
        | "access_denied"
        | "interaction_required"
        | "login_required"
        | "consent_required" => LoginError::Refused { provider, reason },
        "invalid_client"
        | "unauthorized_client"
        | "incorrect_client_credentials"
        | "redirect_uri_mismatch" => LoginError::Client { provider, reason },
        "temporarily_unavailable" | "server_error" | "slow_down" => {
            LoginError::Unreachable { provider, reason }
        }
        _other => LoginError::Answer { provider, reason: format!("it answered {reason}") },
    }
}

/// Sorts an error that came back with the browser (RFC 6749, section 4.1.2.1, and OpenID Connect Core, 3.1.2.6).
pub(super) fn of_callback(provider: &str, code: &str, description: Option<&str>) -> LoginError {
    let reason = described(code, description);
    let provider = provider.to_owned();
    match code {
        "access_denied"
        | "interaction_required"
        | "login_required"
        | "consent_required"
        | "account_selection_required" => LoginError::Denied { provider, reason },
        "temporarily_unavailable" | "server_error" => LoginError::Unreachable { provider, reason },
        "unauthorized_client" | "redirect_uri_mismatch" | "application_suspended" => {
            LoginError::Client { provider, reason }
        }
        _other => LoginError::Answer { provider, reason: format!("it answered {reason}") },
    }
}
