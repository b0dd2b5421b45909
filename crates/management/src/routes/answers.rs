//! Who answers on which route, as values of the table.

use serde_json::json;

use super::Answer;
use crate::{
    error::Refused,
    openapi,
    reply::Reply,
    resource::{
        bindings, channels, connections, consumers, control, definitions, deprecated, entered,
        exchanges, health, limits, logins, look, messages, node, overview, parameters, permissions,
        policies, queues, replicas, topic_permissions, users, vhosts,
    },
};

/// Mostly it is a resource, by what is below the first words of the path.
macro_rules! answer {
    ($answer:path, below $words:literal) => {
        answer!(|asked| {
            let (api, below) = (asked.api()?, asked.below($words));
            $answer(api, asked.visitor, asked.request, below).await
        })
    };
    (|$asked:ident| $work:expr) => {
        |$asked| {
            Box::pin(async move {
                let answered: Result<Reply, Refused> = $work;
                answered
            })
        }
    };
}

pub(super) const ALIVENESS: Answer =
    answer!(|asked| health::aliveness(asked.api()?, asked.visitor, asked.word(1)));
pub(super) const BINDINGS: Answer = answer!(bindings::answer, below 1);
pub(super) const CANCEL: Answer = answer!(|asked| consumers::cancel(
    asked.api()?,
    asked.visitor,
    asked.word(2),
    asked.word(3),
    asked.word(4)
)
.await);
pub(super) const CHANNELS: Answer = answer!(channels::answer, below 1);
pub(super) const CHANNELS_OF_VHOST: Answer =
    answer!(
        |asked| channels::of_vhost(asked.api()?, asked.visitor, asked.request, asked.word(1)).await
    );
pub(super) const CLUSTER_NAME: Answer =
    answer!(|asked| parameters::cluster_name(asked.api()?, asked.request).await);
pub(super) const CONNECTIONS: Answer = answer!(connections::answer, below 1);
pub(super) const CONNECTIONS_OF_VHOST: Answer = answer!(|asked| connections::of_vhost(
    asked.api()?,
    asked.visitor,
    asked.request,
    asked.word(1)
)
.await);
pub(super) const CONSUMERS: Answer = answer!(consumers::answer, below 1);
pub(super) const DEFINITIONS: Answer = answer!(definitions::answer, below 1);
pub(super) const DEFINITIONS_AS_ONCE: Answer =
    answer!(|asked| definitions::answer(asked.api()?, asked.visitor, asked.request, &[]).await);
pub(super) const DEPRECATED: Answer =
    answer!(|asked| deprecated::answer(asked.api()?, asked.below(1)));
pub(super) const ENABLE_FEATURE_FLAG: Answer =
    answer!(|asked| node::enable_feature_flag(asked.word(1)));
pub(super) const EXCHANGES: Answer = answer!(exchanges::answer, below 1);
pub(super) const FEATURE_FLAGS: Answer = answer!(|_asked| Ok(node::feature_flags()));
pub(super) const GET_MESSAGES: Answer = answer!(|asked| messages::get(
    asked.api()?,
    asked.visitor,
    asked.request,
    asked.word(1),
    asked.word(2)
)
.await);
pub(super) const GLOBAL_PARAMETERS: Answer =
    answer!(|asked| parameters::global(asked.api()?, asked.request, asked.below(1)).await);
pub(super) const HASH: Answer = answer!(|asked| Ok(users::hash(asked.api()?, asked.word(2))));
pub(super) const HEALTH: Answer =
    answer!(|asked| health::check(asked.api()?, asked.visitor, asked.below(2)));
pub(super) const LOGIN: Answer =
    answer!(|asked| overview::login(asked.api()?, asked.request).await);
pub(super) const LOGINS: Answer =
    answer!(|asked| logins::answer(asked.api()?, asked.request, asked.below(2)));
pub(super) const LOOK: Answer = answer!(|asked| look::messages(
    asked.api()?,
    asked.visitor,
    asked.request,
    asked.word(2),
    asked.word(3)
)
.await);
pub(super) const NODES: Answer =
    answer!(|asked| node::answer(asked.api()?, asked.request, asked.below(1)));
pub(super) const NODE_CONTROL: Answer =
    answer!(|asked| control::answer(asked.node, asked.api, asked.request, asked.below(2)).await);
pub(super) const NONE: Answer = answer!(|_asked| Ok(Reply::Json(json!([]))));
pub(super) const NONE_IN_VHOST: Answer =
    answer!(
        |asked| entered(asked.api()?, asked.visitor, asked.word(1)).map(|_| Reply::Json(json!([])))
    );
pub(super) const OLD_HEALTH: Answer = answer!(|asked| health::old(asked.api()?, asked.below(2)));
pub(super) const OPENAPI: Answer = answer!(|asked| Ok(openapi::describe(asked.api()?)));
pub(super) const OPERATOR_POLICIES: Answer = answer!(|asked| policies::answer(
    asked.api()?,
    asked.visitor,
    asked.request,
    policies::OPERATOR,
    asked.below(1)
)
.await);
pub(super) const OVERVIEW: Answer =
    answer!(|asked| overview::show(asked.api()?, asked.visitor, asked.request));
pub(super) const PARAMETERS: Answer = answer!(parameters::answer, below 1);
pub(super) const PERMISSIONS: Answer =
    answer!(|asked| permissions::answer(asked.api()?, asked.request, asked.below(1)).await);
pub(super) const PERMISSIONS_OF_USER: Answer =
    answer!(|asked| permissions::of_user(asked.api()?, asked.request, asked.word(1)));
pub(super) const PERMISSIONS_OF_VHOST: Answer =
    answer!(|asked| permissions::of_vhost(asked.api()?, asked.request, asked.word(1)));
pub(super) const POLICIES: Answer = answer!(|asked| policies::answer(
    asked.api()?,
    asked.visitor,
    asked.request,
    policies::USER,
    asked.below(1)
)
.await);
pub(super) const PUBLISH: Answer = answer!(|asked| messages::publish(
    asked.api()?,
    asked.visitor,
    asked.request,
    asked.word(1),
    asked.word(2)
)
.await);
pub(super) const QUEUES: Answer = answer!(queues::answer, below 1);
pub(super) const QUEUES_OF_USER: Answer =
    answer!(
        |asked| queues::of_user(asked.api()?, asked.visitor, asked.request, asked.word(1)).await
    );
pub(super) const QUEUE_ACTION: Answer = answer!(|asked| queues::act(
    asked.api()?,
    asked.visitor,
    asked.request,
    asked.word(1),
    asked.word(2)
));
pub(super) const READY: Answer = answer!(|asked| Ok(health::ready(asked.api()?)));
pub(super) const REBALANCE: Answer = answer!(|_asked| Ok(Reply::NoContent));
pub(super) const REPLICAS: Answer =
    answer!(|asked| replicas::answer(asked.api()?, asked.visitor, asked.request, asked.below(2)));
pub(super) const RESET: Answer = answer!(|asked| node::forget_rates(asked.api()?, asked.below(1)));
pub(super) const SHOVELS: Answer = answer!(|asked| parameters::shovels(
    asked.api()?,
    asked.visitor,
    asked.request,
    asked.below(1)
));
pub(super) const TOPIC_PERMISSIONS: Answer =
    answer!(|asked| topic_permissions::answer(asked.api()?, asked.request, asked.below(1)).await);
pub(super) const TOPIC_PERMISSIONS_OF_USER: Answer =
    answer!(|asked| topic_permissions::of_user(asked.api()?, asked.request, asked.word(1)));
pub(super) const TOPIC_PERMISSIONS_OF_VHOST: Answer =
    answer!(|asked| topic_permissions::of_vhost(asked.api()?, asked.request, asked.word(1)));
pub(super) const USERS: Answer = answer!(users::answer, below 1);
pub(super) const USER_LIMITS: Answer = answer!(limits::of_users, below 1);
pub(super) const VERSION: Answer =
    answer!(|asked| Ok(Reply::Json(asked.api()?.facts.version.clone().into())));
pub(super) const VHOSTS: Answer = answer!(vhosts::answer, below 1);
pub(super) const VHOST_LIMITS: Answer = answer!(limits::of_vhosts, below 1);
pub(super) const WHOAMI: Answer =
    answer!(|asked| Ok(overview::whoami(asked.api()?, asked.visitor)));
