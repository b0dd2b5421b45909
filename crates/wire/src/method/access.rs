//! Class access: what is left of access tickets, which old clients still ask for.

use crate::value::ShortString;

amqp_class! {
    /// What is left of access tickets.
    Access = 30 {
        /// An old client asks for a ticket.
        Request = 10, "access.request" {
            realm: ShortString,
            exclusive: bool,
            passive: bool,
            active: bool,
            write: bool,
            read: bool,
        }
        /// A ticket that nobody looks at.
        RequestOk = 11, "access.request-ok" { ticket: u16 }
    }
}
