//! What layers with a mixture of experts do besides their products: experts are chosen for each token ([`choice`]), tokens are
//! put in the order of their experts ([`order`], [`rows`]), and the results of a token's experts are summed ([`sums`]).

pub mod choice;
pub mod order;
pub mod rows;
pub mod sums;
