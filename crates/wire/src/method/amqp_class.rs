//! The macro that makes a class of methods from one table.

/// A method as the spec defines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MethodDefinition {
    /// The number of the class.
    pub class_id: u16,
    /// The number within the class.
    pub method_id: u16,
    /// The name with its class, such as `basic.publish`.
    pub name: &'static str,
    /// Whether a content header and a body follow.
    pub has_content: bool,
    /// The arguments in the order of the wire.
    pub arguments: &'static [ArgumentDefinition],
}

/// An argument as the spec defines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArgumentDefinition {
    /// The name of the field that holds it.
    pub name: &'static str,
    /// The type's name in the spec, such as `shortstr`.
    pub domain: &'static str,
}

/// A struct for every method and an enum over them, with reading, writing and definitions.
///
/// Every struct can be turned into the enum of its class and into [`super::Method`]. `Default` means empty and zero, which
/// is not always what the spec calls the default.
macro_rules! amqp_class {
    (
        $(#[$class_doc:meta])*
        $Class:ident = $class_id:literal {
            $(
                $(#[$doc:meta])*
                $Name:ident = $method_id:literal, $name:literal $(, with $content:ident)? {
                    $($(#[$field_doc:meta])* $field:ident: $Type:ty),* $(,)?
                }
            )*
        }
    ) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Default, PartialEq, Eq)]
            #[allow(missing_docs, reason = "the table explains the fields whose name does not")]
            pub struct $Name {
                $($(#[$field_doc])* pub $field: $Type,)*
            }

            impl $Name {
                /// The number of the method within its class.
                pub const METHOD_ID: u16 = $method_id;

                /// The method as the spec defines it.
                pub const DEFINITION: $crate::method::MethodDefinition =
                    $crate::method::MethodDefinition {
                        class_id: $class_id,
                        method_id: $method_id,
                        name: $name,
                        has_content: amqp_class!(@has_content $($content)?),
                        arguments: &[$(
                            $crate::method::ArgumentDefinition {
                                name: stringify!($field),
                                domain: <$Type as $crate::method::argument::Argument>::DOMAIN,
                            },
                        )*],
                    };
            }

            impl From<$Name> for $Class {
                fn from(method: $Name) -> Self {
                    Self::$Name(method)
                }
            }

            impl From<$Name> for $crate::method::Method {
                fn from(method: $Name) -> Self {
                    Self::$Class($Class::$Name(method))
                }
            }
        )*

        $(#[$class_doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $Class {
            $($(#[$doc])* $Name($Name),)*
        }

        impl $Class {
            /// The number of the class.
            pub const CLASS_ID: u16 = $class_id;

            /// The methods of the class as the spec defines them.
            pub const DEFINITIONS: &[$crate::method::MethodDefinition] = &[$($Name::DEFINITION),*];

            /// The number of the method within the class.
            pub const fn method_id(&self) -> $crate::ids::MethodId {
                match self {
                    $(Self::$Name(_) => $crate::ids::MethodId::new($method_id),)*
                }
            }

            /// The name with its class, such as `basic.publish`.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$Name(_) => $name,)*
                }
            }

            /// Whether a content header and a body follow.
            pub const fn has_content(&self) -> bool {
                match self {
                    $(Self::$Name(_) => amqp_class!(@has_content $($content)?),)*
                }
            }

            /// Reads the arguments, straight into the enum of all methods: they are too large to be moved twice.
            pub(in crate::method) fn read(
                arguments: $crate::method::argument::Arguments<'_>,
            ) -> Result<$crate::method::Method, $crate::method::MethodError> {
                match arguments.method_id() {
                    $($method_id => {
                        #[allow(unused_mut, reason = "some methods have no arguments")]
                        let mut arguments =
                            arguments.with_any_bytes(amqp_class!(@has_content $($content)?));
                        let method = $Name { $($field: arguments.argument()?,)* };
                        arguments.finish()?;
                        Ok($crate::method::Method::$Class(Self::$Name(method)))
                    })*
                    _ => Err(arguments.unknown()),
                }
            }

            /// Writes the arguments.
            pub(in crate::method) fn write(&self, out: &mut bytes::BytesMut) {
                let mut writer = $crate::method::argument::ArgumentWriter::new(out);
                match self {
                    $(Self::$Name($Name { $($field),* }) => {
                        $(writer.argument($field);)*
                    })*
                }
                writer.close();
            }
        }
    };

    (@has_content) => { false };
    (@has_content content) => { true };
}
