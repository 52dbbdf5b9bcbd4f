//! What runners call.

use crate::support::Server;

on_both!(nothing_is_served_that_nobody_knows);

async fn nothing_is_served_that_nobody_knows(server: Server) {
    let answer = server.client.get(server.url("/nothing")).send().await.unwrap();
    assert_eq!(answer.status(), 404);
}
