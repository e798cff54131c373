//! Talks to the admin listener of a running service, for the commands that do.

use anyhow::{Context, anyhow};
use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::cli::{Exit, Failure, healthcheck, reception};
use crate::config::AdminArgs;

/// A client of one admin listener.
pub struct AdminClient {
    http: reqwest::Client,
    at: url::Url,
    token: Option<secrecy::SecretString>,
}

/// What the service said. Whether its status is a success is for the command to judge.
#[derive(Debug)]
pub struct Reply {
    /// The status.
    pub status: StatusCode,
    /// The body.
    pub body: Value,
}

impl AdminClient {
    /// A client of the service that the flags name. Nothing is sent yet.
    ///
    /// # Errors
    /// [`Exit::Usage`] for a URL that cannot be one, [`Exit::File`] for a token that cannot be read.
    pub fn new(args: &AdminArgs) -> Result<Self, Failure> {
        let at: url::Url = args
            .admin
            .parse()
            .with_context(|| format!("{} is not a URL", args.admin))
            .map_err(|error| Failure::new(Exit::Usage, error))?;
        if at.scheme() != "http" || at.host().is_none() {
            return Err(Failure::new(
                Exit::Usage,
                anyhow!("--admin begins with http://, as in http://127.0.0.1:9090"),
            ));
        }
        let token = match &args.admin_token_file {
            Some(path) => Some(reception::read_token(path)?.trim().into()),
            None => None,
        };
        let http = healthcheck::client()?;
        Ok(Self { http, at, token })
    }

    /// Asks for what is at `path`, with a query of `parameters`.
    ///
    /// # Errors
    /// [`Exit::Service`] when the service cannot be reached, refuses the token, or is something else.
    pub async fn get(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Reply, Failure> {
        self.ask(Method::GET, path, parameters, None).await
    }

    /// Sends `body`, where there is one, to `path`.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn post(&self, path: &str, body: Option<&Value>) -> Result<Reply, Failure> {
        self.ask(Method::POST, path, &[], body).await
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        parameters: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Reply, Failure> {
        use secrecy::ExposeSecret;
        let mut url = self.at.clone();
        url.set_path(path);
        if !parameters.is_empty() {
            url.query_pairs_mut().extend_pairs(parameters);
        }
        let mut request = self.http.request(method, url);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose_secret());
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let place = self.at.as_str().trim_end_matches('/');
        let unreachable = || format!("could not reach the admin listener at {place}");
        let failed = |error: anyhow::Error| Failure::new(Exit::Service, error);
        let reply = request
            .send()
            .await
            .map_err(reqwest::Error::without_url) // it may hold names
            .with_context(unreachable)
            .map_err(failed)?;
        let status = reply.status();
        if status == StatusCode::UNAUTHORIZED {
            let what = if self.token.is_some() {
                "does not know this token"
            } else {
                "demands a token"
            };
            let error = anyhow!(
                "the admin listener at {place} {what}; --admin-token-file names the file that holds it"
            );
            return Err(failed(error));
        }
        let body = reply
            .json()
            .await
            .map_err(reqwest::Error::without_url)
            .with_context(|| format!("what answers at {place} is not namegate's admin listener"))
            .map_err(failed)?;
        Ok(Reply { status, body })
    }
}
