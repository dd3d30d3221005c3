//! Rotation of the operator's key, in two steps. Start: the account tokens carry a statement by which the present operator names the next one, and
//! brokers accept tokens of both. Finish: the next operator signs all tokens and replaces the present one.
//!
//! The next key is in `keys/operator.nk.next` between the steps. Every step can be repeated after an interruption. Nothing here connects to a broker.

use muster_files::files;
use muster_wire::Millis;
use muster_wire::token::claims::{AccountClaims, OperatorClaims, TokenClaims};
use muster_wire::token::decode::{DecodedToken, decode_token};
use muster_wire::token::encode::{self, TokenValidity};
use muster_wire::token::{KeyPair, PublicKey};

use crate::account::write_token;
use crate::{
    MAX_FILE_BYTES, Organisation, OrganisationError, OrganisationKey, OrganisationLock,
    RotationStart,
};

impl Organisation {
    /// Creates the next operator's key, and signs account tokens in which the present operator names it, and an operator token that makes brokers
    /// accept both. If that was done before, and the rotation is not finished, only missing parts are added.
    pub fn start_operator_rotation(
        &self,
        lock: &OrganisationLock,
        now: Millis,
    ) -> Result<RotationStart, OrganisationError> {
        let operator = self.load_key(OrganisationKey::Operator)?;
        self.remove_installed_key(&operator)?;
        let next = self.create_next_key(OrganisationKey::Operator)?.public_key();
        if next == operator.public_key() {
            // An interrupted finish has installed the key; only finishing can follow.
            return Ok(RotationStart::Continued);
        }
        let mut start = RotationStart::Continued;
        for realm in self.realms() {
            let trust = self.realm_trust(realm)?;
            if trust.next_operator() == Some(next) {
                continue;
            }
            let mut account = trust.claims().nats.clone();
            let name = &self.profile().name;
            let account_key = trust.account_key();
            account.add_succession(encode::issue_succession(
                name,
                next,
                account_key,
                now / 1000,
                &operator,
            )?);
            self.sign_account(lock, realm, account, now)?;
            start = RotationStart::Started;
        }
        self.write_operator_token(&operator, vec![next], now)?;
        Ok(start)
    }

    /// The operator that the present one named, while a rotation is in progress.
    pub fn next_operator(&self) -> Result<Option<PublicKey>, OrganisationError> {
        Ok(self.load_next_key(OrganisationKey::Operator)?.map(|next| next.public_key()))
    }

    /// Signs all tokens with the next operator's key, which replaces the present one. Returns false if no rotation was started.
    ///
    /// The description of the organisation names the new operator last but one, and the file of the next key is removed last.
    pub fn finish_operator_rotation(
        &mut self,
        lock: &OrganisationLock,
        now: Millis,
    ) -> Result<bool, OrganisationError> {
        let key = OrganisationKey::Operator;
        let Some(next) = self.load_next_key(key)? else {
            return Ok(false);
        };
        for realm in self.realms() {
            let account = self.realm_trust(realm)?.claims().nats.clone();
            self.sign_account_with(lock, &next, (realm, account), now)?;
        }
        self.sign_system_account(&next, now)?;
        self.write_operator_token(&next, Vec::new(), now)?;
        self.install_next_key(key, &next)?;
        self.profile.operator = next.public_key();
        self.write_profile()?;
        self.remove_next_key(key)?;
        Ok(true)
    }

    /// Writes the operator's own token. Brokers accept account tokens of the operator and of these other keys.
    pub(crate) fn write_operator_token(
        &self,
        operator: &KeyPair,
        others: Vec<PublicKey>,
        now: Millis,
    ) -> Result<(), OrganisationError> {
        let profile = self.profile();
        let claims = OperatorClaims {
            signing_keys: others,
            ..OperatorClaims::new(Some(profile.system_account))
        };
        let validity = TokenValidity::without_end(now / 1000);
        let token = encode::issue_operator_token(&profile.name, claims, validity, operator)?;
        Ok(write_token(&self.layout().operator_token(), &token)?)
    }

    /// The text of the system account's token.
    pub(crate) fn system_token(&self) -> Result<String, OrganisationError> {
        let text = files::read_text(&self.layout().system_token(), MAX_FILE_BYTES)?;
        Ok(text.trim().to_owned())
    }

    /// Signs the token of the system account again.
    fn sign_system_account(
        &self,
        operator: &KeyPair,
        now: Millis,
    ) -> Result<(), OrganisationError> {
        let claims = self.system_claims()?;
        self.write_system_account(claims.nats.clone(), operator, now)
    }

    /// The verified claims of the system account.
    pub(crate) fn system_claims(&self) -> Result<TokenClaims<AccountClaims>, OrganisationError> {
        let text = self.system_token()?;
        decode_token::<AccountClaims>(&text)
            .and_then(DecodedToken::verify_signature)
            .map_err(|source| OrganisationError::Token(self.layout().system_token(), source))
    }

    /// Signs a token of the system account with these claims, and saves it.
    pub(crate) fn write_system_account(
        &self,
        account: AccountClaims,
        operator: &KeyPair,
        now: Millis,
    ) -> Result<(), OrganisationError> {
        let present = self.system_claims()?;
        let validity = TokenValidity::without_end_after(present.iat, now);
        let token =
            encode::issue_account_token(&present.name, present.sub, account, validity, operator)?;
        write_token(&self.layout().system_token(), &token)?;
        self.write_broker_accounts()
    }

    /// Removes the file of the next key if it is the present one: an interrupted end of a rotation left it.
    fn remove_installed_key(&self, operator: &KeyPair) -> Result<(), OrganisationError> {
        if self.next_operator()? == Some(operator.public_key())
            && self.profile().operator == operator.public_key()
        {
            self.remove_next_key(OrganisationKey::Operator)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use muster_wire::token::AccountTrust;

    use crate::testing::{NOW, organisation};
    use crate::{AccountRealm, Organisation, OrganisationKey, RotationStart};

    #[test]
    fn operator_is_replaced_in_two_steps() {
        let directory = tempfile::tempdir().unwrap();
        let mut organisation = organisation(directory.path());
        let lock = organisation.lock().unwrap();
        assert!(!organisation.finish_operator_rotation(&lock, NOW).unwrap());
        let old = organisation.profile().operator;
        let start = |organisation: &Organisation| organisation.start_operator_rotation(&lock, NOW);
        assert_eq!(start(&organisation).unwrap(), RotationStart::Started);
        let next = organisation.next_operator().unwrap().unwrap();
        let first = organisation.fleet_trust().unwrap();
        assert_eq!(start(&organisation).unwrap(), RotationStart::Continued);
        assert_eq!(organisation.next_operator().unwrap(), Some(next));
        let announced = organisation.fleet_trust().unwrap();
        assert_eq!(announced.account_token(), first.account_token());
        assert_eq!((announced.signing_operator(), announced.next_operator()), (old, Some(next)));

        assert!(organisation.finish_operator_rotation(&lock, NOW).unwrap());
        assert!(!organisation.finish_operator_rotation(&lock, NOW).unwrap());
        let opened = Organisation::open(organisation.layout().directory()).unwrap();
        assert_eq!(opened.profile().operator, next);
        assert_eq!(opened.load_key(OrganisationKey::Operator).unwrap().public_key(), next);
        for realm in [AccountRealm::Fleet, AccountRealm::Newcomers] {
            let trust = opened.realm_trust(realm).unwrap();
            assert_eq!(trust.signing_operator(), next);
            assert!(AccountTrust::new(old, trust.account_token()).is_ok());
        }
        // Later changes and rotations build on the new operator.
        opened.revoke_keys(&lock, AccountRealm::Fleet, &[], NOW).unwrap();
        assert_eq!(start(&opened).unwrap(), RotationStart::Started);
        assert!(announced.update(opened.fleet_trust().unwrap().account_token()).is_ok());
    }

    /// A finish that was interrupted after any of its writes can be repeated, and so can everything else in between.
    #[test]
    fn interrupted_finish_can_be_repeated() {
        let directory = tempfile::tempdir().unwrap();
        let mut organisation = organisation(directory.path());
        let lock = organisation.lock().unwrap();
        organisation.start_operator_rotation(&lock, NOW).unwrap();
        let layout = organisation.layout().clone();
        let next_file = layout.next_key_file(OrganisationKey::Operator);
        let next = std::fs::read(&next_file).unwrap();
        let read = |path| std::fs::read(path).unwrap();
        let (profile, key) =
            (read(layout.profile_file()), read(layout.key_file(OrganisationKey::Operator)));
        organisation.finish_operator_rotation(&lock, NOW).unwrap();
        let new_profile = read(layout.profile_file());
        let new_key = organisation.profile().operator;
        // The states after the tokens, after the key, and after the description were written.
        for (profile, key) in [(&profile, &key), (&profile, &next), (&new_profile, &next)] {
            let replace = muster_files::files::replace_secret;
            std::fs::write(layout.profile_file(), profile).unwrap();
            replace(&layout.key_file(OrganisationKey::Operator), key).unwrap();
            replace(&next_file, &next).unwrap();
            let mut interrupted = Organisation::open(layout.directory()).unwrap();
            assert!(interrupted.finish_operator_rotation(&lock, NOW).unwrap());
            assert_eq!(interrupted.profile().operator, new_key);
            assert_eq!(interrupted.fleet_trust().unwrap().signing_operator(), new_key);
            assert!(!next_file.exists());
        }
    }
}
