//! A small HTTP/1.1 client that shows a test what was on the wire, and can send what no proper
//! client would.
//!
//! No redirects, no compression, no TLS, no pooling. Every wait has an end: [`PATIENCE`].

use std::fmt::Write;
use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The longest wait for the next bytes of an answer, unless a connection is told otherwise.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// An answer, as received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Names as sent, in the order in which they came.
    pub(crate) headers: Vec<(String, String)>,
    /// Bytes that are no UTF-8 are replaced.
    pub(crate) body: String,
}

impl Reply {
    /// The value of the first header of this name, in whichever case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    /// # Panics
    /// When it is not; the message holds the reply.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body)
            .unwrap_or_else(|error| panic!("not JSON ({error}): {self:?}"))
    }
}

/// Asks `GET path_and_query` on a connection of its own.
/// # Panics
/// When no whole answer comes; to see why, use a [`Connection`].
pub(crate) async fn get(address: SocketAddr, path_and_query: &str) -> Reply {
    request(address, "GET", path_and_query, &[], b"").await
}

/// Asks anything on a connection of its own.
/// # Panics
/// When no whole answer comes; to see why, use a [`Connection`].
pub(crate) async fn request(
    address: SocketAddr,
    method: &str,
    path_and_query: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Reply {
    let answer = async {
        Connection::open(address)
            .await?
            .request(method, path_and_query, headers, body)
            .await
    };
    answer
        .await
        .unwrap_or_else(|error| panic!("{method} {path_and_query} from {address}: {error}"))
}

/// Sends `bytes` as they are and reads one answer; `None` when the server closes without any.
/// # Panics
/// When the server cannot be reached, falls silent or answers with something that is no HTTP.
pub(crate) async fn raw(address: SocketAddr, bytes: &[u8]) -> Option<Reply> {
    let answer = async {
        let mut connection = Connection::open(address).await?;
        // A server may close before it has read everything, and still have answered.
        let _ = connection.send(bytes).await;
        connection.reply("").await
    };
    match answer.await {
        Ok(reply) => Some(reply),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
            ) =>
        {
            None
        }
        Err(error) => panic!("{} from {address}: {error}", bytes.escape_ascii()),
    }
}

/// One connection, kept open from question to question: for thousands of them, and for watching it
/// close.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    host: String,
    patience: Duration,
}

impl Connection {
    /// # Errors
    /// When nobody listens there or the connection is not accepted in time.
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = within(PATIENCE, TcpStream::connect(address)).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
            host: address.to_string(),
            patience: PATIENCE,
        })
    }

    /// Replaces [`PATIENCE`].
    pub(crate) fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// # Errors
    /// As [`Connection::reply`].
    pub(crate) async fn get(&mut self, path_and_query: &str) -> Result<Reply> {
        self.request("GET", path_and_query, &[], b"").await
    }

    /// Sends a request, with `Host` and, where there is a body, `Content-Length`, and reads its
    /// answer.
    /// # Errors
    /// As [`Connection::reply`].
    pub(crate) async fn request(
        &mut self,
        method: &str,
        path_and_query: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Reply> {
        let mut head = format!(
            "{method} {path_and_query} HTTP/1.1\r\nHost: {}\r\n",
            self.host
        );
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n"); // writing to a string cannot fail
        }
        if !body.is_empty() {
            let _ = write!(head, "Content-Length: {}\r\n", body.len());
        }
        head.push_str("\r\n");
        self.send(&[head.as_bytes(), body].concat()).await?;
        self.reply(method).await
    }

    /// Sends `bytes` as they are.
    /// # Errors
    /// When the connection is closed or does not take them in time.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        within(self.patience, self.stream.get_mut().write_all(bytes)).await
    }

    /// Reads one answer to a request of this `method`: one to `HEAD` has no body, whatever its
    /// headers say.
    /// # Errors
    /// `UnexpectedEof` when the server closed before the answer was whole, `TimedOut` when it fell
    /// silent, `InvalidData` when what it sent is no HTTP/1.1.
    pub(crate) async fn reply(&mut self, method: &str) -> Result<Reply> {
        let status_line = self.line().await?;
        let status = status_line
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3)?.parse().ok());
        let status = status.ok_or_else(|| malformed("status line", &status_line))?;
        let headers = self.headers().await?;
        let mut reply = Reply {
            status,
            headers,
            body: String::new(),
        };
        let has_body = method != "HEAD" && status >= 200 && !matches!(status, 204 | 304);
        if has_body {
            let bytes = self.body(&reply).await?;
            reply.body = String::from_utf8_lossy(&bytes).into_owned();
        }
        Ok(reply)
    }

    /// Whether the server has closed the connection; waits for it up to `patience`.
    /// # Errors
    /// `InvalidData` when the server sends something instead.
    pub(crate) async fn closes_within(&mut self, patience: Duration) -> Result<bool> {
        match within(patience, self.stream.fill_buf()).await {
            Ok([]) => Ok(true),
            Ok(unasked) => Err(malformed(
                "end of the connection",
                &String::from_utf8_lossy(unasked),
            )),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(true),
            Err(error) if error.kind() == ErrorKind::TimedOut => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn headers(&mut self) -> Result<Vec<(String, String)>> {
        let mut headers = Vec::new();
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                return Ok(headers);
            }
            let (name, value) = line
                .split_once(':')
                .ok_or_else(|| malformed("header", &line))?;
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
    }

    async fn body(&mut self, head: &Reply) -> Result<Vec<u8>> {
        if head
            .header("transfer-encoding")
            .is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"))
        {
            return self.chunks().await;
        }
        if let Some(length) = head.header("content-length") {
            return self
                .exactly(
                    length
                        .parse()
                        .map_err(|_| malformed("content length", length))?,
                )
                .await;
        }
        let mut bytes = Vec::new();
        within(self.patience, self.stream.read_to_end(&mut bytes)).await?;
        Ok(bytes)
    }

    async fn chunks(&mut self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            let line = self.line().await?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size =
                usize::from_str_radix(size, 16).map_err(|_| malformed("chunk size", &line))?;
            if size == 0 {
                self.headers().await?; // trailers, which nobody here asks for
                return Ok(bytes);
            }
            bytes.extend(self.exactly(size).await?);
            self.line().await?;
        }
    }

    async fn exactly(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        within(self.patience, self.stream.read_exact(&mut bytes)).await?;
        Ok(bytes)
    }

    /// One line without its end.
    async fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        within(self.patience, self.stream.read_line(&mut line)).await?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None if line.is_empty() => Err(ErrorKind::UnexpectedEof.into()),
            None => Err(malformed("line", &line)),
        }
    }
}

/// `text` for use in a query: everything but the unreserved characters of RFC 3986 is encoded, byte
/// by byte.
pub(crate) fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(byte.into());
            }
            _ => {
                let _ = write!(encoded, "%{byte:02X}"); // writing to a string cannot fail
            }
        }
        encoded
    })
}

async fn within<T>(patience: Duration, wait: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(patience, wait)
        .await
        .unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
}

fn malformed(what: &str, found: &str) -> Error {
    Error::new(
        ErrorKind::InvalidData,
        format!("expected a {what}, got {found:?}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_query_could_take_for_its_own_is_encoded() {
        assert_eq!(percent_encoded("a-Z_0.~"), "a-Z_0.~");
        assert_eq!(
            percent_encoded("a b+c&d=e%é/"),
            "a%20b%2Bc%26d%3De%25%C3%A9%2F"
        );
    }
}
