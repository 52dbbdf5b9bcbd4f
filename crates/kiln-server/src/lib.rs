//! HTTP, services and duties: the control plane.
