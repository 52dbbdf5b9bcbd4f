//! What systemd wants to know, and a unit file for it.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use super::settings::variable;

/// Tells systemd how we do, if it started us and asked for it.
pub(crate) fn notify(state: &str) {
    let Some(name) = variable("NOTIFY_SOCKET") else { return };
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&name),
    };
    let told = address
        .and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = told {
        tracing::warn!(%error, "cannot tell systemd how the server does");
    }
}

/// For `/etc/systemd/system/kiln.service`.
pub(crate) fn unit() -> String {
    let program = std::env::current_exe();
    let program =
        program.map_or_else(|_| "/usr/bin/kiln".into(), |path| path.display().to_string());
    UNIT.replace("{program}", &program)
}

const UNIT: &str = "\
[Unit]
Description=Kiln server
After=network-online.target postgresql.service
Wants=network-online.target

[Service]
Type=notify
ExecStart={program} server
User=kiln
StateDirectory=kiln
StateDirectoryMode=0700
Environment=KILN_DATA=/var/lib/kiln
Restart=always
RestartSec=1
TimeoutStopSec=30
LimitNOFILE=65536
NoNewPrivileges=true
ProtectSystem=strict
ProtectHome=true
PrivateTmp=true

[Install]
WantedBy=multi-user.target
";
